#pragma once
// The table of launchers: how each is recognised and what its variables say. Only launch_environment.cpp uses it.

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

/// The environment while one launcher's row reads it.
struct LauncherInput {
  const Environment& environment;
  const LaunchFacts& facts;
  std::string_view launcher;

  std::string_view text(std::string_view name) const;  ///< empty when not set
  bool has(std::string_view name) const { return !text(name).empty(); }
  /// A whole number into `into` and its source; nothing when not set. Errors name the variable.
  Status number(std::string_view name, std::int64_t least, std::string_view setting, int& into, LaunchInfo& info) const;
};

struct Launcher {
  std::string_view name;
  bool (*present)(const Environment&);
  Status (*read)(const LauncherInput&, LaunchInfo&, LauncherAdvice&);
};

/// In the order in which they are believed.
std::span<const Launcher> launchers();

}  // namespace fabring
