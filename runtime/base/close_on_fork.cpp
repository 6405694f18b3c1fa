#include "runtime/base/close_on_fork.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace fabring::close_on_fork {
namespace {

using Inode = std::atomic<ino_t>;
static_assert(Inode::is_always_lock_free);  // a lock may be held for ever in the child

// By number, 0 where none of ours is. By inodes the child knows them again: its descriptors were copied a moment before
// its memory, and a number may have become another file's between the two.
constinit std::array<Inode, 65536> inodes{};
constinit std::atomic<std::size_t> end{0};  // all that were ever added are below it

ino_t inode_of_socket(int descriptor) {
  struct stat file {};
  return ::fstat(descriptor, &file) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

int unconnected() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// In the child: what may be called between fork() and exec() only, and nothing that its parent would see, as
// shutdown().
void close_in_child() {
  const std::size_t until = end.load(std::memory_order_relaxed);
  const int spare = until > 0 ? unconnected() : -1;
  int stand_in = spare;
  for (std::size_t number = 0; number < until; ++number) {
    const ino_t inode = inodes[number].exchange(0, std::memory_order_relaxed);
    const int socket = static_cast<int>(number);
    if (inode == 0 || inode_of_socket(socket) != inode) continue;
    if (stand_in >= 0 && ::dup3(stand_in, socket, O_CLOEXEC) >= 0) continue;
    ::close(socket);
    if (stand_in < 0) stand_in = unconnected();  // no more files could be opened: now it has this one's number
  }
  if (spare >= 0) ::close(spare);
}

// When the library is loaded, not at the first add(): a child could find that begun and never ended. With the library's
// end (dlclose) it is taken back. Without memory for it, children keep copies.
[[maybe_unused]] const int watched = ::pthread_atfork(nullptr, nullptr, close_in_child);

}  // namespace

void add(int socket) {
  const auto number = static_cast<std::size_t>(socket);
  if (number >= inodes.size()) return;  // also -1, whose errno must stay
  const ino_t inode = inode_of_socket(socket);
  if (inode == 0) return;
  inodes[number].store(inode, std::memory_order_relaxed);
  std::size_t known = end.load(std::memory_order_relaxed);
  while (known <= number && !end.compare_exchange_weak(known, number + 1, std::memory_order_relaxed)) {
  }
}

std::vector<int> sockets() {
  std::vector<int> found;
  const std::size_t until = end.load(std::memory_order_relaxed);
  for (std::size_t number = 0; number < until; ++number)
    if (inodes[number].load(std::memory_order_relaxed) != 0) found.push_back(static_cast<int>(number));
  return found;
}

void remove(int descriptor) {
  const auto number = static_cast<std::size_t>(descriptor);
  if (number < inodes.size()) inodes[number].store(0, std::memory_order_relaxed);
}

}  // namespace fabring::close_on_fork
