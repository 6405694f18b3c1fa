#include "tools/fabring/doctor/net_fabric.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "runtime/base/named_thread.hpp"
#include "runtime/startup/host_rails.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t small_message = 16;
constexpr std::size_t large_message = 64 * 1024;
// Of each message: the slot it goes to, and the lower half of the context of its receive; sends are above.
struct FabricMessage {
  enum Kind : std::uint8_t { small, large, small_answer, large_answer, kinds };
};

std::size_t bytes_of(int kind) { return kind == FabricMessage::large ? large_message : small_message; }

// "fabric 10.0.0.1:4711, provider net, ...": the address.
std::string readable(const Endpoint& endpoint) {
  const std::string text = endpoint.describe();
  const std::size_t from = text.find(' ') + 1;
  return text.substr(from, text.find(',') - from);
}

}  // namespace

// What is said with one card of another rank, both as caller and as the one who answers. In the thread.
class FabricProbe::Conversation {
 public:
  Conversation(Endpoint& endpoint, const Target& target, std::uint64_t first_context)
      : endpoint_(endpoint), peer_(target.rank), first_context_(first_context) {
    probe_.to = target.rank;
    probe_.door = target.door;
    for (int kind = 0; kind < FabricMessage::kinds; ++kind) {
      memory_[kind].resize(2 * bytes_of(kind));
      due_.push_back([this, kind] {
        return endpoint_.post_recv(peer_, slot_of(kind), {memory_[kind].data(), bytes_of(kind)}, context_of(kind));
      });
    }
  }

  /// Posts what is due, in order, as far as there is room.
  void post() {
    while (!due_.empty() && due_.front()() == Post::accepted) due_.erase(due_.begin());
  }

  /// Nothing can be said.
  void give_up(const std::string& why) {
    due_.clear();
    probe_.reach = Reach::wrong_service;
    probe_.text = why;
    over_ = true;
  }

  void begin(SteadyTime limit) {
    if (over_) return;
    limit_ = limit;
    asked_at_ = std::chrono::steady_clock::now();
    say(FabricMessage::small);
  }

  /// `number`: of the context, without the conversation's.
  void completed(std::uint64_t number, const Completion& completion) {
    if (completion.outcome != Outcome::done) {
      broken_ = true;
      return;
    }
    if (number >= FabricMessage::kinds) return;  // something was sent
    const auto now = std::chrono::steady_clock::now();
    switch (static_cast<FabricMessage::Kind>(number)) {
      case FabricMessage::small:
        say(FabricMessage::small_answer);
        break;
      case FabricMessage::large:
        say(FabricMessage::large_answer);
        break;
      case FabricMessage::small_answer:
        probe_.rtt_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(now - asked_at_).count(), 1, 1'000'000'000));
        asked_at_ = now;
        answered_ = true;
        say(FabricMessage::large);
        break;
      case FabricMessage::large_answer:
        probe_.large_ms =
            static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - asked_at_).count());
        probe_.reach = Reach::fine;
        over_ = true;
        break;
      case FabricMessage::FabricMessage::kinds:
        break;
    }
  }

  /// Has it ended, well or not?
  bool over(SteadyTime now) {
    if (over_) return true;
    if (!broken_ && now < limit_) return false;
    const Status error = endpoint_.peer_error(peer_);
    probe_.reach = answered_ ? Reach::large_stalls : broken_ ? Reach::cut : Reach::no_answer;
    probe_.text = !error.ok() ? error.message()
                  : answered_ ? "no answer to 64 KiB over libfabric"
                  : broken_   ? "libfabric gave the connection up"
                              : "no message comes through libfabric";
    return over_ = true;
  }
  const Probe& probe() const { return probe_; }

 private:
  Slot slot_of(int kind) const { return static_cast<Slot>(kind); }
  std::uint64_t context_of(int kind) const { return first_context_ + static_cast<std::uint64_t>(kind); }

  void say(FabricMessage::Kind kind) {
    due_.push_back([this, kind] {
      return endpoint_.post_send(peer_, slot_of(kind), {memory_[kind].data() + bytes_of(kind), bytes_of(kind)},
                                 context_of(kind) + FabricMessage::kinds);
    });
    post();
  }

  Endpoint& endpoint_;
  const Rank peer_;
  const std::uint64_t first_context_;
  std::array<std::vector<std::byte>, FabricMessage::kinds> memory_;  // half to receive, half to send
  std::vector<std::function<Post()>> due_;
  Probe probe_;
  SteadyTime asked_at_, limit_ = SteadyTime::max();
  bool answered_ = false, broken_ = false, over_ = false;
};

FabricProbe::FabricProbe(std::chrono::milliseconds limit) : limit_(limit) {}

FabricProbe::~FabricProbe() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  std::array<Completion, 64> completions;
  for (Card& card : cards_) {
    card.endpoint->close();
    while (card.endpoint->poll(completions) > 0) {
    }
  }
  cards_.clear();  // before the memory that they were given
}

void FabricProbe::open(const EndpointOptions& options, const RailChoice& cards, NetFacts& facts) {
  usable_ = std::make_unique<UsableTransports>(options.config.transport);
  Identity found;
  if (const Status probed = usable_->probe_networks(options, found); !probed.ok()) facts.problem = probed.message();
  facts.networks = found.usable;
  facts.provider = found.provider;
  if (facts.networks.empty() || facts.networks.front() != "fabric") return;
  const auto allowed = allowed_devices(usable_->devices("fabric", options), options.config.interface);
  if (!allowed) {
    facts.problem = allowed.error().message();
    return;
  }
  const std::vector<std::string>& devices = *allowed;
  const auto add = [&](const EndpointOptions& how, const std::string& name, const std::string& network) {
    auto endpoint = usable_->open("fabric", how);
    if (!endpoint) {
      facts.problem = "for data over libfabric, on " + name + ": " + endpoint.error().message();
      return;
    }
    Door door;
    door.purpose = "data over libfabric";
    door.interface = name;
    door.network = network;
    door.address = readable(**endpoint);
    door.fabric = (*endpoint)->address();
    cards_.push_back({facts.doors.size(), std::move(*endpoint)});
    facts.doors.push_back(std::move(door));
  };
  EndpointOptions one = options;
  one.one_of_several = (devices.empty() ? cards.rails.size() : devices.size()) > 1;
  // Devices are the host's: where a launcher says which rank is its first, that one is enough.
  for (const std::string& device : devices) {
    if (options.config.local_rank > 0) break;
    one.near_devices = {device};
    add(one, device, "fabric");
  }
  if (!devices.empty()) return;
  for (const RailChoice::Rail& card : cards.rails) {
    one.bind_address = card.address.address;
    add(one, card.address.interface, card.network);
  }
}

Status FabricProbe::start(const std::vector<Target>& targets) {
  if (targets.empty()) return {};
  for (const Target& target : targets) {
    const auto card =
        std::find_if(cards_.begin(), cards_.end(), [&](const Card& one) { return one.door == target.own; });
    if (card == cards_.end()) return Status(ErrorCode::internal, "a door of libfabric that is not ours");
    talks_.push_back(std::make_unique<Conversation>(*card->endpoint, target, 2 * FabricMessage::kinds * talks_.size()));
    if (Status added = card->endpoint->add_peer(target.rank, target.fabric); !added.ok())
      talks_.back()->give_up(added.message());
    found_.emplace_back();
    found_.back().to = target.rank;
    found_.back().door = target.door;
  }
  // Until the receives are there nobody may send.
  for (const auto& talk : talks_) talk->post();
  auto thread = start_thread("fabring-fabric", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

void FabricProbe::run() {
  std::vector<bool> open;  // conversations that this rank has begun
  while (!stop_) {
    std::size_t count = 0;
    std::array<Completion, 64> completions;
    for (Card& card : cards_) {
      const std::size_t got = card.endpoint->poll(completions);
      count += got;
      for (std::size_t i = 0; i < got; ++i)
        talks_[completions[i].context / (2 * FabricMessage::kinds)]->completed(
            completions[i].context % (2 * FabricMessage::kinds), completions[i]);
    }
    for (const auto& talk : talks_) talk->post();
    const auto now = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(mutex_);
      if (open.empty() && !wanted_.empty()) {
        open = wanted_;
        for (std::size_t i = 0; i < open.size(); ++i)
          if (open[i]) talks_[i]->begin(now + limit_);
      }
      for (std::size_t i = 0; i < open.size(); ++i)
        if (open[i] && talks_[i]->over(now)) {
          found_[i] = talks_[i]->probe();
          open[i] = false;
          --left_;
          changed_.notify_all();
        }
    }
    if (count == 0) cards_.front().endpoint->wait(std::chrono::microseconds(cards_.size() > 1 ? 200 : 1000));
  }
}

std::vector<Probe> FabricProbe::call(const std::vector<bool>& wanted, SteadyTime deadline) {
  if (talks_.empty()) return {};
  std::unique_lock lock(mutex_);
  left_ = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true));
  wanted_ = wanted;
  changed_.wait_until(lock, deadline, [&] { return left_ == 0; });
  std::vector<Probe> called;
  for (std::size_t i = 0; i < found_.size(); ++i)
    if (wanted[i]) called.push_back(found_[i]);
  return called;
}

}  // namespace fabring::tools
