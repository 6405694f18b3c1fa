#pragma once
// UnsharedChoice: whether a long message whose memory is not shared is copied to the channel and out of it, or read by
// its receiver with the kernel's help: one copy instead of two, but of whole pages that the kernel has to look up.
// Which is faster depends on the machine and on what lies in which cache, so it is measured, again and again, by both
// ends. It is asked only where the sender's time counts as much as the receiver's (Endpoint::post_readable_send).

#include <cstddef>
#include <cstdint>

#include "transports/shm/layout.hpp"
#include "transports/shm/pace.hpp"

namespace fabring::shm {

/// Of shorter messages two copies cost less than the kernel's call, and to wait until the bytes are back.
inline constexpr std::size_t least_unshared = 64 * 1024;

class UnsharedChoice {
 public:
  /// Channel::reads_in of who cannot read.
  static constexpr std::uint32_t unreadable = ~std::uint32_t{0};

  explicit UnsharedChoice(const Channel& channel) : channel_(&channel) {}

  /// Is the next message to be read by its receiver? `written`: nanoseconds that a byte takes to the channel.
  bool next(double written) {
    const std::uint32_t reads_in = channel_->reads_in.load(std::memory_order_relaxed);
    if (reads_in == unreadable) return false;
    const double copied_in = Pace::of_published(channel_->copies_in.load(std::memory_order_relaxed));
    const bool read = Pace::of_published(reads_in) < advantage * (written + copied_in);
    const std::uint32_t turn = turn_++ % trial_period;
    return turn >= trial_begin && turn < trial_begin + trials ? !read : read;
  }

  static constexpr std::uint32_t trial_period = 512;  ///< messages from one trial of the other way to the next
  static constexpr std::uint32_t trials = Pace::samples;

 private:
  static constexpr std::uint32_t trial_begin = 2;
  static constexpr double advantage =
      0.75;  // the kernel's calls vary more; and what is read to be written is in the cache

  const Channel* channel_;
  std::uint32_t turn_ = 0;
};

}  // namespace fabring::shm
