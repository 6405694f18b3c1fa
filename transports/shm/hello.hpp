#pragma once
// Hello: what ranks say when they introduce themselves, with descriptors attached.

#include <unistd.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/descriptor.hpp"
#include "transports/shm/descriptor_message.hpp"

namespace fabring::shm {

struct Hello {
  static constexpr std::uint64_t magic_number = 0x364d485347424146;  // of this layout
  std::uint64_t magic = magic_number;
  std::uint64_t nonce = 0;  ///< of the job
  std::uint64_t pair_bytes = 0;
  std::uint64_t arena_bytes = 0;  ///< of the sender
  std::int32_t from = 0;
  std::int32_t to = 0;
};

enum class Heard : std::uint8_t {
  nothing_yet,
  hello,
  incomplete,  ///< a hello without all of its descriptors: this process may have no more
  nonsense,
  ended,  ///< the other end hung up
};

/// False: no room now, or the connection is gone.
inline bool say(int socket, const Hello& hello, std::initializer_list<int> descriptors) {
  return DescriptorMessage::say(socket, std::as_bytes(std::span(&hello, 1)), {descriptors.begin(), descriptors.size()});
}

/// Whatever descriptors come are owned, also of a stranger.
inline Heard hear(int socket, Hello& hello, std::vector<Descriptor>& descriptors) {
  std::size_t got = 0;
  const auto heard = DescriptorMessage::hear(socket, std::as_writable_bytes(std::span(&hello, 1)), got, descriptors);
  if (heard == DescriptorMessage::Heard::nothing_yet) return Heard::nothing_yet;
  if (heard == DescriptorMessage::Heard::ended) return Heard::ended;
  if (got != sizeof hello || hello.magic != Hello::magic_number) return Heard::nonsense;
  return heard == DescriptorMessage::Heard::message ? Heard::hello : Heard::incomplete;
}

/// Does the other end run as the same user?
inline bool same_user(int socket) {
  const auto credentials = credentials_of(socket);
  return credentials && credentials->uid == ::geteuid();
}

}  // namespace fabring::shm
