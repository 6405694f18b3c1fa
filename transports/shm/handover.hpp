#pragma once
// Handover: descriptors that a rank hands to another over the lifeline of the two, numbered by who hands them over.
// They are in the socket when send() returns, so whoever reads their number in shared memory finds them there. All that
// comes is from a peer: what makes no sense ends it, and nothing that nobody takes is kept for long. Nothing here
// blocks.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/descriptor.hpp"

namespace fabring::shm {

class Handover {
 public:
  static constexpr std::size_t most_kept = 16;  ///< messages that nobody took yet

  /// Their number. Nothing: no room now (the peer does not read, or too many are on their way), or it has ended.
  std::optional<std::uint64_t> send(int socket, std::span<const Descriptor> descriptors);

  enum class Heard : std::uint8_t { all, ended, nonsense };
  /// Takes in what is there, if that is not without end.
  Heard hear(int socket);
  /// Endpoint::take_over() of what was heard.
  std::optional<std::vector<Descriptor>> take(std::uint64_t number);
  void clear() { kept_.clear(); }

 private:
  struct Parcel {
    std::uint64_t number = 0;
    std::vector<Descriptor> descriptors;
  };
  std::uint64_t sent_ = 0;
  std::deque<Parcel> kept_;  // in the order they came
};

}  // namespace fabring::shm
