#pragma once
// AllGather: the blobs of one all-gather after another, as they come in. Because the tree keeps the order of messages
// and a rank starts the next all-gather only when it has all of the last, every blob belongs to the current one;
// anything else is a peer's mistake. Pure; the caller locks.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

class AllGather {
 public:
  explicit AllGather(int world_size)
      : blobs_(static_cast<std::size_t>(world_size)), have_(static_cast<std::size_t>(world_size)) {}

  std::uint32_t number() const { return number_; }

  /// False: not of this all-gather, or the second of its rank.
  bool add(std::uint32_t number, Rank origin, std::string blob) {
    const auto index = static_cast<std::size_t>(origin);
    if (number != number_ || have_[index]) return false;
    have_[index] = true;
    blobs_[index] = std::move(blob);
    if (++count_ < blobs_.size()) return true;
    finished_ = std::move(blobs_);
    blobs_ = std::vector<std::string>(finished_->size());
    have_.assign(finished_->size(), false);
    count_ = 0;
    ++number_;
    return true;
  }

  bool has_begun() const { return count_ > 0; }
  bool has(Rank origin) const { return have_[static_cast<std::size_t>(origin)]; }

  /// The last one that was completed, once.
  std::optional<std::vector<std::string>> take() { return std::exchange(finished_, std::nullopt); }
  bool is_finished() const { return finished_.has_value(); }

 private:
  std::uint32_t number_ = 0;
  std::vector<std::string> blobs_;
  std::vector<bool> have_;
  std::size_t count_ = 0;
  std::optional<std::vector<std::string>> finished_;
};

}  // namespace fabring
