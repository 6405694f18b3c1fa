#pragma once
// Whether ranks that wait for each other do so in a circle, and in what: then none of them is at fault alone. In one
// call, what one of them has sent has not arrived; in different ones, the program is to blame. Pure.

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

/// What a rank tells the others when it has waited for long (ControlPlane::set_activity), cut to their length.
std::string wait_note(std::string_view operation, std::string_view label, std::chrono::seconds waited,
                      std::string_view for_whom);

/// The ranks that such a note names. Nothing: it says of none that it waits for it, or was cut, or is none.
std::optional<std::vector<Rank>> named_in_wait_note(std::string_view note);

enum class WaitCircle {
  none,             ///< somebody does not wait, or that cannot be known
  one_call,         ///< all in calls of one kind on one communicator
  sends,            ///< each in a send
  different_calls,  ///< on different communicators, or in messages beside collectives
};

/// Does each of `ranks`, and each whom these wait for, wait itself? `own_note` as wait_note() makes it of what `self`
/// waits in; `note_of`: what a rank has told last; empty where it does not wait, or is not heard.
WaitCircle wait_circle(Rank self, std::string_view own_note, std::span<const Rank> ranks,
                       const std::function<std::string(Rank)>& note_of);

}  // namespace fabring
