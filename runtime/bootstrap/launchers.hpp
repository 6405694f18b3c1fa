#pragma once
// The table of launchers: the variables by which each is known, those that number its ranks, and what the others say.

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "runtime/bootstrap/launch_environment.hpp"

namespace fabring {

/// Error texts for what a launcher left out; empty: the general text.
struct LauncherAdvice {
  std::string no_rank;
  std::string no_address;
};

struct Launcher;

/// The environment while one launcher's row reads it.
struct LauncherInput {
  const Environment& environment;
  const LaunchFacts& facts;
  const Launcher& row;

  std::string_view text(std::string_view name) const;  ///< empty when not set
  bool has(std::string_view name) const { return !text(name).empty(); }
  /// A whole number into `into` and its source; nothing when not set. Errors name the variable.
  Status number(std::string_view name, std::int64_t least, std::string_view setting, int& into, LaunchInfo& info) const;
  /// Rank, size and local rank by the row's names.
  Status place(LaunchInfo& info) const;
};

/// The names are of variables; empty: it has none.
struct Launcher {
  std::string_view name;
  std::array<std::string_view, 4> known_by;  ///< it is this launcher where all of these are set
  std::string_view rank = {};  ///< says which one this is, by number or name; empty: what it starts are no ranks
  std::string_view size = {};
  std::string_view local_rank = {};
  std::string_view local_size = {};
  /// What it numbers may be hosts, pods or daemons, on which another launcher starts the ranks.
  bool around_others = false;
  Status (*read)(const LauncherInput&, LaunchInfo&, LauncherAdvice&) = nullptr;
};

/// What to say of a process without a rank that has those: Kubeflow Trainer's pods do. Empty: it has none.
std::string arguments_without_torchrun(const Environment& environment);

/// Did it start this process?
bool is_known(const Launcher& launcher, const Environment& environment);

/// In the order in which they are believed. One that is known by this or by that has a row for each.
std::span<const Launcher> launchers();

}  // namespace fabring
