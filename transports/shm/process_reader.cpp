#include "transports/shm/process_reader.hpp"

#include <sys/uio.h>

#include <array>

#include "runtime/base/abstract_socket.hpp"

namespace fabring::shm {

ProcessReader::ProcessReader(Channel& channel) : channel_(&channel) { tell(); }

ProcessReader::ProcessReader(Channel& channel, int lifeline, const ProcessMark& mark)
    : channel_(&channel), mark_(mark) {
  const auto credentials = credentials_of(lifeline);
  process_ = credentials ? credentials->pid : 0;
  if (process_ != 0 && !read_there(nullptr, mark_.at, 0)) process_ = 0;
  tell();
}

bool ProcessReader::read(std::byte* to, std::uint64_t from, std::size_t bytes) {
  if (process_ != 0 && read_there(to, from, bytes)) return true;
  process_ = 0;
  tell();
  return false;
}

// The mark is read by the same call: the number of a process that has ended may be another one's by now, and a process
// may have become another program.
bool ProcessReader::read_there(std::byte* to, std::uint64_t from, std::size_t bytes) const {
  ProcessMark seen;
  const std::array<iovec, 2> here{{{to, bytes}, {&seen, sizeof seen}}};
  const std::array<iovec, 2> there{
      {{reinterpret_cast<void*>(from), bytes}, {reinterpret_cast<void*>(mark_.at), sizeof seen}}};
  const ssize_t got = ::process_vm_readv(process_, here.data(), here.size(), there.data(), there.size(), 0);
  return got == static_cast<ssize_t>(bytes + sizeof seen) && seen == mark_;
}

void ProcessReader::tell() { channel_->reads_unshared.store(process_ == 0 ? 0 : 1, std::memory_order_relaxed); }

}  // namespace fabring::shm
