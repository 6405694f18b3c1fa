#pragma once
// MirroredRanges: which bytes of a device have their copy in memory of the host just now, so that what is sent to
// several peers is copied down once. Of one tile.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan.hpp"

namespace fabring {

class MirroredRanges {
 public:
  enum class State : std::uint8_t { absent, on_its_way, here };

  void clear() { ranges_.clear(); }
  /// `waits` is told by arrived() when the bytes are here, if they are on their way.
  State find(std::span<const std::byte> bytes, StepId waits) {
    for (Range& range : ranges_) {
      if (bytes.data() < range.begin || bytes.data() + bytes.size() > range.end) continue;
      if (range.here) return State::here;
      if (std::find(range.waiting.begin(), range.waiting.end(), waits) == range.waiting.end())
        range.waiting.push_back(waits);
      return State::on_its_way;
    }
    return State::absent;
  }
  /// The copy that `step` has asked for begins.
  void expect(std::span<const std::byte> bytes, StepId step) {
    ranges_.push_back({bytes.data(), bytes.data() + bytes.size(), false, {step}});
  }
  /// The copy that this step asked for is over; who waited for it.
  std::vector<StepId> arrived(StepId step) {
    for (Range& range : ranges_)
      if (!range.here && range.waiting.front() == step) {
        range.here = true;
        return std::move(range.waiting);
      }
    return {};
  }
  /// They are here now.
  void add(std::span<const std::byte> bytes) {
    ranges_.push_back({bytes.data(), bytes.data() + bytes.size(), true, {}});
  }
  /// Something else is going to be there, or on the device.
  void forget(std::span<const std::byte> bytes) {
    std::erase_if(ranges_, [&](const Range& range) {
      return range.here && range.begin < bytes.data() + bytes.size() && bytes.data() < range.end;
    });
  }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool here;
    std::vector<StepId> waiting;
  };
  std::vector<Range> ranges_;
};

}  // namespace fabring
