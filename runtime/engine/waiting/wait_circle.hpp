#pragma once
// Whether ranks that wait for each other do so in a circle: then none of them is at fault, and what one of them has
// sent has not arrived. Pure.

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

/// Does each of `ranks`, and each whom these wait for, wait itself? `note_of`: what a rank has told last; empty where
/// it does not wait, or is not heard. False too where that cannot be known.
bool wait_in_circle(Rank self, std::span<const Rank> ranks, const std::function<std::string(Rank)>& note_of);

}  // namespace fabring
