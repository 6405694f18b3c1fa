#include "transports/shm/intake.hpp"

#include <sys/uio.h>

#include <array>
#include <chrono>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/copy_bytes.hpp"
#include "transports/shm/shared_copy.hpp"
#include "transports/shm/unshared_choice.hpp"

namespace fabring::shm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t least_measured = 16 * 1024;  // below it a look at the clock costs too much

std::int64_t nanoseconds_since(Clock::time_point begin) {
  return std::chrono::nanoseconds(Clock::now() - begin).count();
}

}  // namespace

Intake::Intake(Channel& channel) : channel_(&channel) { publish(); }

Intake::Intake(Channel& channel, int lifeline, const ProcessMark& mark) : channel_(&channel), mark_(mark) {
  const auto credentials = credentials_of(lifeline);
  process_ = credentials ? credentials->pid : 0;
  if (process_ != 0 && !read_there(nullptr, mark_.at, 0)) process_ = 0;
  publish();
}

void Intake::copy(std::byte* to, const std::byte* from, std::size_t bytes, bool cold) {
  const bool measured = bytes >= least_measured;
  const auto begin = measured ? Clock::now() : Clock::time_point();
  cold ? streaming_copy(to, from, bytes) : copy_bytes(to, from, bytes);
  if (!measured) return;
  copies_.took(bytes, nanoseconds_since(begin));
  publish();
}

bool Intake::read(std::byte* to, std::uint64_t from, std::size_t bytes) {
  const auto begin = Clock::now();
  const bool was_read = process_ != 0 && read_there(to, from, bytes);
  if (was_read)
    reads_.took(bytes, nanoseconds_since(begin));
  else
    process_ = 0;
  publish();
  return was_read;
}

// The mark is read by the same call: the number of a process that has ended may be another one's by now, and a process
// may have become another program.
bool Intake::read_there(std::byte* to, std::uint64_t from, std::size_t bytes) const {
  ProcessMark seen;
  const std::array<iovec, 2> here{{{to, bytes}, {&seen, sizeof seen}}};
  const std::array<iovec, 2> there{
      {{reinterpret_cast<void*>(from), bytes}, {reinterpret_cast<void*>(mark_.at), sizeof seen}}};
  const ssize_t got = ::process_vm_readv(process_, here.data(), here.size(), there.data(), there.size(), 0);
  return got == static_cast<ssize_t>(bytes + sizeof seen) && seen == mark_;
}

// Where it is as before, the peer's processor need not fetch it again.
void Intake::publish() {
  const auto tell = [](std::atomic<std::uint32_t>& at, std::uint32_t pace) {
    if (at.load(std::memory_order_relaxed) != pace) at.store(pace, std::memory_order_relaxed);
  };
  tell(channel_->reads_in, process_ == 0 ? UnsharedChoice::unreadable : reads_.published());
  tell(channel_->copies_in, copies_.published());
}

}  // namespace fabring::shm
