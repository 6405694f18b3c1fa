#pragma once
// FaultyEndpoint: any endpoint with worse manners that are still within the contract: it says `again` in storms, hands
// out completions late and in another order; and it can die after a number of posts. All from a seed.

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "transports/forwarding_endpoint.hpp"

namespace fabring {

struct Faults {
  std::uint32_t seed = 1;
  double storm_start = 0;    ///< chance per post that a storm of `again` begins
  unsigned storm_posts = 0;  ///< how many posts it refuses
  double hold_back = 0;      ///< chance per poll that a completion stays for a later poll
  bool reorder = false;
  std::uint64_t kill_after_posts = 0;  ///< closes the endpoint at this post; 0: never
};

class FaultyEndpoint final : public ForwardingEndpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, const Faults& faults)
      : ForwardingEndpoint(std::move(inner)), faults_(faults), random_(faults.seed) {}

  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_send(peer, slot, from, context);
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_readable_send(peer, slot, from, context);
  }
  Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_written(peer, slot, from, context);
  }
  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_cold_recv(peer, slot, into, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_recv(peer, slot, into, context);
  }
  Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_borrowing_recv(peer, slot, into, context);
  }
  Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_ticket(peer, slot, ticket, context);
  }
  std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) override {
    return refuses() ? std::nullopt : inner().hand_over(peer, descriptors);
  }
  Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return refuses() ? Post::again : inner().post_recv_or_ticket(peer, slot, into, context);
  }

  std::size_t poll(std::span<Completion> out) override {
    Completion fresh[16];
    const std::size_t taken = inner().poll(fresh);
    held_.insert(held_.end(), fresh, fresh + taken);
    if (faults_.reorder) std::shuffle(held_.begin(), held_.end(), random_);
    std::size_t given = 0;
    for (std::size_t i = 0; i < held_.size() && given < out.size();) {
      if (chance(faults_.hold_back)) {
        ++i;
        continue;
      }
      out[given++] = held_[i];
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return given;
  }

  void wait(std::chrono::microseconds limit) override {
    if (held_.empty()) inner().wait(limit);
  }
  std::string describe() const override { return inner().describe() + ", with faults"; }

  bool killed() const { return killed_; }

 private:
  bool chance(double probability) {
    return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }

  bool refuses() {
    if (faults_.kill_after_posts != 0 && ++posts_ == faults_.kill_after_posts) {
      killed_ = true;
      inner().close();
    }
    if (storm_ == 0 && chance(faults_.storm_start)) storm_ = faults_.storm_posts;
    return storm_ > 0 && storm_-- > 0;
  }

  const Faults faults_;
  std::mt19937 random_;
  std::vector<Completion> held_;
  unsigned storm_ = 0;
  std::uint64_t posts_ = 0;
  bool killed_ = false;
};

}  // namespace fabring
