#pragma once
// What to say of a peer that sent what no rank sends: it called the same, its connection works, and yet what came
// cannot be. Nothing that the network does to a message leads there.

#include <string>

#include "fabring/status.hpp"

namespace fabring {

inline const char* const where_nonsense_comes_from =
    "Either the two run unlike builds of Fabring (compare `fabring --version` on both hosts), or something wrote "
    "over Fabring's memory in one of them (valgrind or -fsanitize=address finds it)";

/// `place`: "in allreduce #3 on communicator 'world'", or nothing; `what`: "it sent a message twice".
inline Status nonsense(const std::string& what, const std::string& place = {}) {
  return {ErrorCode::internal, place + (place.empty() ? "" : " ") + what + ". " + where_nonsense_comes_from};
}
/// Peers are told apart by it from those whose connection failed.
inline bool is_nonsense(const Status& status) { return status.code() == ErrorCode::internal; }

}  // namespace fabring
