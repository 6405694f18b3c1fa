#include "runtime/engine/members/account.hpp"

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/sequence.hpp"

namespace fabring {
namespace {

std::string encode_one(const Account& account) {
  const Signature& last = account.last;
  WireWriter out;
  out.number(account.communicator).number(account.sequence).number<std::uint8_t>(account.fine ? 1 : 0);
  out.number(last.collective).number(last.type).number(last.op).number(last.algorithm);
  out.number(last.root).number(last.count).number(last.layout);
  const std::size_t peers = std::min(account.sent.size(), Account::most_peers);
  out.number<std::uint8_t>(account.all_sent && peers == account.sent.size() ? 1 : 0);
  out.number(static_cast<std::uint16_t>(peers));
  for (std::size_t i = 0; i < peers; ++i) out.number(account.sent[i].first).number(account.sent[i].second);
  return out.take();
}

Account decode_one(WireReader& in) {
  Account account;
  account.communicator = in.number<std::uint64_t>();
  account.sequence = in.number<std::uint32_t>();
  account.fine = in.number<std::uint8_t>() == 1;
  Signature& last = account.last;
  last.collective = in.number<std::uint8_t>();
  last.type = in.number<std::uint8_t>();
  last.op = in.number<std::uint8_t>();
  last.algorithm = in.number<std::uint8_t>();
  last.root = in.number<std::uint32_t>();
  last.count = in.number<std::uint64_t>();
  last.layout = in.number<std::uint32_t>();
  account.all_sent = in.number<std::uint8_t>() == 1;
  for (auto peers = in.number<std::uint16_t>(); in.ok() && peers > 0; --peers) {
    const auto rank = in.number<Rank>();
    account.sent.emplace_back(rank, in.number<std::uint32_t>());
  }
  return account;
}

}  // namespace

std::string Accounts::encode() const {
  std::string bytes;
  bool every = complete;
  for (const Account& account : all) {
    const std::string one = encode_one(account);
    if (bytes.size() + one.size() + 1 > most_bytes) {
      every = false;
      break;
    }
    bytes += one;
  }
  return WireWriter().number<std::uint8_t>(every ? 1 : 0).raw(bytes).take();
}

std::optional<Accounts> Accounts::decode(std::string_view bytes) {
  if (bytes.size() > most_bytes) return std::nullopt;
  WireReader in(bytes);
  Accounts accounts;
  accounts.complete = in.number<std::uint8_t>() == 1;
  while (in.ok() && !in.complete()) accounts.all.push_back(decode_one(in));
  if (!in.complete()) return std::nullopt;
  return accounts;
}

const Account* Accounts::of(std::uint64_t communicator) const {
  const Account* found = nullptr;
  for (const Account& account : all) {
    if (account.communicator != communicator) continue;
    if (found != nullptr) return nullptr;
    found = &account;
  }
  return found;
}

bool Accounts::called_fewer(std::uint64_t communicator, std::uint32_t sequence) const {
  return complete && std::all_of(all.begin(), all.end(), [&](const Account& account) {
           return account.communicator != communicator || account.sequence == 0 ||
                  is_before(account.sequence, sequence);
         });
}

bool Accounts::sent_at_most(std::uint64_t communicator, Rank to, std::uint32_t messages) const {
  return complete && std::all_of(all.begin(), all.end(), [&](const Account& account) {
           return account.communicator != communicator ||
                  (account.all_sent && std::none_of(account.sent.begin(), account.sent.end(), [&](const auto& sent) {
                     return sent.first == to && is_before(messages, sent.second);
                   }));
         });
}

void Departures::heard(Rank rank, Accounts accounts) {
  std::lock_guard lock(mutex_);
  accounts_[rank] = std::move(accounts);
}

bool Departures::called_fewer(Rank rank, std::uint64_t communicator, std::uint32_t sequence) const {
  std::lock_guard lock(mutex_);
  const auto found = accounts_.find(rank);
  return found != accounts_.end() && found->second.called_fewer(communicator, sequence);
}

bool Departures::sent_at_most(Rank rank, std::uint64_t communicator, Rank to, std::uint32_t messages) const {
  std::lock_guard lock(mutex_);
  const auto found = accounts_.find(rank);
  return found != accounts_.end() && found->second.sent_at_most(communicator, to, messages);
}

std::optional<Departures::Difference> Departures::differing(const Account& own) const {
  std::lock_guard lock(mutex_);
  for (const auto& [rank, theirs] : accounts_) {
    const Account* other = theirs.of(own.communicator);
    if (other != nullptr && other->fine && other->sequence == own.sequence && !same_call(own.last, other->last))
      return Difference{rank, other->last};
  }
  return std::nullopt;
}

void AccountBook::open() {
  std::lock_guard lock(mutex_);
  ++open_;
}

void AccountBook::close(std::optional<Entry> entry) {
  std::lock_guard lock(mutex_);
  --open_;
  if (!entry) return;
  entries_.push_back(std::move(*entry));
  if (entries_.size() <= most_entries) return;
  entries_.pop_front();
  dropped_some_ = true;
}

std::vector<AccountBook::Entry> AccountBook::entries() const {
  std::lock_guard lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

std::optional<Account> AccountBook::of(std::uint32_t id, std::size_t there) const {
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.account.communicator >> 32 == id; });
  if (found != entries_.end()) return found->account;
  return !dropped_some_ && open_ == there ? std::optional(Account{}) : std::nullopt;  // one that has called nothing
}

bool AccountBook::complete(std::size_t there) const {
  std::lock_guard lock(mutex_);
  return !dropped_some_ && open_ == there;
}

}  // namespace fabring
