#include "runtime/engine/members/shrink_agreement.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/wire.hpp"

namespace fabring {
namespace {

std::string packed(const MemberSet& set) {
  std::string bytes((set.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) bytes[i / 8] = static_cast<char>(static_cast<unsigned char>(bytes[i / 8]) | (1u << (i % 8)));
  return bytes;
}

std::optional<MemberSet> unpacked(std::string_view bytes, std::size_t size) {
  if (bytes.size() != (size + 7) / 8) return std::nullopt;
  MemberSet set(size);
  for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
    const bool is_in = ((static_cast<unsigned char>(bytes[i / 8]) >> (i % 8)) & 1u) != 0;
    if (i < size)
      set[i] = is_in;
    else if (is_in)
      return std::nullopt;
  }
  return set;
}

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

}  // namespace

std::string ShrinkLetter::encode() const {
  constexpr std::size_t most_bytes = most_members / 8;
  return WireWriter()
      .number(static_cast<std::uint8_t>(kind))
      .number(communicator)
      .number(round)
      .number(id)
      .number(static_cast<std::uint32_t>(gone.size()))
      .text(packed(gone), most_bytes)
      .text(packed(ended), most_bytes)
      .text(packed(waited_for), most_bytes)
      .take();
}

std::optional<ShrinkLetter> ShrinkLetter::decode(std::string_view bytes) {
  constexpr std::size_t most_bytes = most_members / 8;
  WireReader in(bytes);
  ShrinkLetter letter;
  const auto kind = in.number<std::uint8_t>();
  letter.communicator = in.number<std::uint64_t>();
  letter.round = in.number<std::uint32_t>();
  letter.id = in.number<std::uint32_t>();
  const auto members = in.number<std::uint32_t>();
  const std::string_view gone = in.text(most_bytes);
  const std::string_view ended = in.text(most_bytes);
  const std::string_view waited_for = in.text(most_bytes);
  if (!in.complete() || members == 0 || members > most_members) return std::nullopt;
  if (kind < static_cast<std::uint8_t>(Kind::report) || kind > static_cast<std::uint8_t>(Kind::decided))
    return std::nullopt;
  letter.kind = static_cast<Kind>(kind);
  for (const auto& [from, to] :
       {std::pair(&gone, &letter.gone), std::pair(&ended, &letter.ended), std::pair(&waited_for, &letter.waited_for)}) {
    auto set = unpacked(*from, members);
    if (!set) return std::nullopt;
    *to = std::move(*set);
  }
  return letter;
}

ShrinkAgreement::ShrinkAgreement(std::uint64_t communicator, std::uint32_t round, int size, Rank self, std::uint32_t id)
    : communicator_(communicator),
      round_(round),
      self_(self),
      id_(id),
      gone_(static_cast<std::size_t>(size)),
      ended_(gone_.size()),
      reported_(gone_.size()) {}

Rank ShrinkAgreement::collector() const {
  return static_cast<Rank>(std::find(gone_.begin(), gone_.end(), false) - gone_.begin());
}

ShrinkLetter ShrinkAgreement::letter(ShrinkLetter::Kind kind) const {
  ShrinkLetter letter;
  letter.kind = kind;
  letter.communicator = communicator_;
  letter.round = round_;
  letter.gone = gone_;
  letter.ended = ended_;
  letter.waited_for = MemberSet(size());
  return letter;
}

ShrinkLetter ShrinkAgreement::decision() const {
  ShrinkLetter told = letter(ShrinkLetter::Kind::decided);
  told.id = id_;
  return told;
}

void ShrinkAgreement::exclude(Rank member, bool ended) {
  if (state_ != State::waiting) return;
  if (member == self_) {
    state_ = State::refused;
    return;
  }
  if (ended) ended_[index(member)] = true;
  gone_[index(member)] = true;
  look();
}

// Who is gone for another is gone here too. False: nothing comes of the letter any more.
bool ShrinkAgreement::take(const ShrinkLetter& letter) {
  if (letter.gone[index(self_)]) {
    state_ = State::refused;
    return false;
  }
  for (std::size_t member = 0; member < size(); ++member) {
    if (!letter.gone[member]) continue;
    gone_[member] = true;
    if (letter.ended[member]) ended_[member] = true;
  }
  return true;
}

void ShrinkAgreement::heard(Rank from, const ShrinkLetter& letter) {
  if (state_ != State::waiting || letter.gone.size() != size() || gone_[index(from)] || from == self_) return;
  if (letter.kind == ShrinkLetter::Kind::decided) {
    if (letter.gone[index(self_)]) {
      state_ = State::refused;
      return;
    }
    const bool collects = collector() == self_;
    gone_ = letter.gone;
    ended_ = letter.ended;
    id_ = letter.id;
    decided(collects);
    return;
  }
  if (!take(letter)) return;
  switch (letter.kind) {
    case ShrinkLetter::Kind::report:
      reported_[index(from)] = true;
      break;
    case ShrinkLetter::Kind::ask:
      reports_to_ = -1;  // once more
      break;
    default:
      if (from == collector()) told_waited_for_ = letter.waited_for;
      break;
  }
  look();
}

void ShrinkAgreement::send_again() {
  if (state_ != State::waiting) return;
  if (collector() != self_) {
    reports_to_ = -1;
    return look();
  }
  ask();
  ShrinkLetter patience = letter(ShrinkLetter::Kind::wait);
  patience.waited_for = waited_for();
  for (std::size_t member = 0; member < size(); ++member)
    if (reported_[member] && !gone_[member]) letters_.push_back({static_cast<Rank>(member), patience});
}

std::vector<ShrinkAgreement::Letter> ShrinkAgreement::take_letters() {
  if (state_ == State::waiting) look();
  return std::exchange(letters_, {});
}

MemberSet ShrinkAgreement::waited_for() const {
  MemberSet missing(size());
  if (collector() != self_) {
    if (told_waited_for_) return *told_waited_for_;
    missing[index(collector())] = true;
    return missing;
  }
  for (std::size_t member = 0; member < size(); ++member)
    missing[member] = !gone_[member] && !reported_[member] && member != index(self_);
  return missing;
}

void ShrinkAgreement::ask() {
  const MemberSet missing = waited_for();
  for (std::size_t member = 0; member < size(); ++member)
    if (missing[member]) letters_.push_back({static_cast<Rank>(member), letter(ShrinkLetter::Kind::ask)});
}

// What is to be done as things are now.
void ShrinkAgreement::look() {
  const Rank to = collector();
  if (to != self_) {
    if (reports_to_ == to) return;
    if (reports_to_ >= 0) told_waited_for_.reset();
    reports_to_ = to;
    letters_.push_back({to, letter(ShrinkLetter::Kind::report)});
    return;
  }
  const MemberSet missing = waited_for();
  if (std::find(missing.begin(), missing.end(), true) != missing.end()) {
    if (reports_to_ == self_) return;
    reports_to_ = self_;
    return ask();
  }
  if (!too_few()) decided(true);
}

void ShrinkAgreement::decided(bool tell) {
  state_ = State::decided;
  letters_.clear();
  for (std::size_t member = 0; tell && member < size(); ++member)
    if (!gone_[member] && member != index(self_)) letters_.push_back({static_cast<Rank>(member), decision()});
}

bool ShrinkAgreement::too_few() const {
  if (gone_ == ended_) return false;
  std::size_t left = 0, perhaps_there = 0;
  std::optional<std::size_t> lowest;
  for (std::size_t member = 0; member < size(); ++member) {
    if (ended_[member]) continue;
    if (!lowest) lowest = member;
    ++perhaps_there;
    if (!gone_[member]) ++left;
  }
  return 2 * left < perhaps_there || (2 * left == perhaps_there && gone_[*lowest]);
}

}  // namespace fabring
