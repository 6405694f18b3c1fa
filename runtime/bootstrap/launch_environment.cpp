#include "runtime/bootstrap/launch_environment.hpp"

#include <fmt/format.h>

#include "runtime/base/parse_value.hpp"
#include "runtime/bootstrap/launchers.hpp"

namespace fabring {
namespace {

constexpr std::string_view how_to_start =
    "start it with `fabring run -n N -- PROGRAM`, or with torchrun, srun or mpirun, or set FABRING_RANK, "
    "FABRING_WORLD_SIZE and FABRING_MASTER_ADDR";

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

// Our own names, over whatever the launcher said.
void take_own(const Environment& environment, const Config& own, LaunchInfo& info) {
  const auto given = [&](std::string_view name) {
    const auto at = environment.find(name);
    if (at == environment.end() || at->second.empty()) return false;
    info.sources[std::string(name)] = fmt::format("environment {}", name);
    return true;
  };
  if (given("FABRING_RANK")) info.rank = own.rank;
  if (given("FABRING_WORLD_SIZE")) info.world_size = own.world_size;
  if (given("FABRING_LOCAL_RANK")) info.local_rank = own.local_rank;
  if (given("FABRING_MASTER_ADDR")) {
    info.master_addr = own.master_addr;
    info.master_named_by = "FABRING_MASTER_ADDR";
  }
  if (given("FABRING_JOB_ID")) info.job_id = own.job_id;
  if (given("FABRING_MASTER_PORT")) {
    info.master_port = own.master_port;
    info.master_port_shared = false;
  }
}

std::string who(const LaunchInfo& info) {
  std::string text;
  if (info.rank >= 0) text = fmt::format("rank {}", info.rank);
  if (info.rank >= 0 && info.world_size >= 0) text += fmt::format(" of {}", info.world_size);
  const bool a_name = info.launcher.find(',') == std::string_view::npos;  // not "RANK, WORLD_SIZE"
  if (info.launcher.empty() || info.launcher == "fabring" || !a_name) return text.empty() ? "this process" : text;
  return text.empty() ? "this process under " + info.launcher : text + " under " + info.launcher;
}

std::string_view value_of(const Environment& environment, std::string_view name) {
  const auto at = environment.find(name);
  return at == environment.end() ? std::string_view() : std::string_view(at->second);
}

// Where no launcher is known: what says half of what is needed, or is for a launcher that has not run. Empty: nothing.
std::string half_said(const Environment& environment) {
  if (std::string arguments = arguments_without_torchrun(environment); !arguments.empty()) return arguments;
  const std::string_view rank = value_of(environment, "RANK"), size = value_of(environment, "WORLD_SIZE");
  if (rank.empty() == size.empty()) return {};
  return fmt::format("no rank: {}={} is set but {} is not; {}", rank.empty() ? "WORLD_SIZE" : "RANK",
                     (rank.empty() ? size : rank).substr(0, 200), rank.empty() ? "RANK" : "WORLD_SIZE", how_to_start);
}

Status check(const LaunchInfo& info, const LauncherAdvice& advice, const Environment& environment) {
  if (info.rank < 0 || info.world_size < 0) {
    if (!advice.no_rank.empty()) return wrong(advice.no_rank);
    if (info.rank < 0 && info.world_size < 0) {
      if (const std::string half = half_said(environment); !half.empty()) return wrong(half);
      return wrong(
          fmt::format("no rank: nothing in the environment says which rank this process is; {}", how_to_start));
    }
    const std::string_view missing = info.rank < 0 ? "FABRING_RANK" : "FABRING_WORLD_SIZE";
    const std::string_view present = info.rank < 0 ? "FABRING_WORLD_SIZE" : "FABRING_RANK";
    const auto source = info.sources.find(present);
    std::string_view only = source == info.sources.end() ? present : std::string_view(source->second);
    if (constexpr std::string_view label = "environment "; only.starts_with(label)) only.remove_prefix(label.size());
    return wrong(fmt::format("{} is missing, only {} is set; {}", missing, only, how_to_start));
  }
  if (info.rank >= info.world_size) {
    const auto rank = info.sources.find("FABRING_RANK"), size = info.sources.find("FABRING_WORLD_SIZE");
    return wrong(fmt::format("rank {} ({}) is out of range: the world has {} ranks ({}), 0 to {}", info.rank,
                             rank == info.sources.end() ? "" : rank->second, info.world_size,
                             size == info.sources.end() ? "" : size->second, info.world_size - 1));
  }
  if (info.master_addr.empty()) {
    if (!advice.no_address.empty())
      return wrong(fmt::format("{}, no master address: {}", who(info), advice.no_address));
    return wrong(fmt::format("{}: FABRING_MASTER_ADDR is missing; set it to the name or address of the host of rank 0",
                             who(info)));
  }
  return {};
}

}  // namespace

int derived_port(std::string_view identity) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a: the same on every host, unlike std::hash
  for (char c : identity) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return 20000 + static_cast<int>((hash ^ (hash >> 32)) % 9000);
}

FoundLaunch find_launch(const Environment& environment, const Config& own, const LaunchFacts& facts) {
  FoundLaunch found;
  LaunchInfo& info = found.info;
  LauncherAdvice advice;
  // A job that named itself completely asks no launcher: `fabring run` inside somebody's allocation.
  const bool named_itself = own.rank >= 0 && own.world_size >= 0 && !own.master_addr.empty();
  if (!named_itself) {
    for (const Launcher& launcher : launchers()) {
      if (!is_known(launcher, environment)) continue;
      info.launcher = launcher.name;
      Status status = launcher.read({environment, facts, launcher}, info, advice);
      if (!status) found.complete = status.with_prefix(fmt::format("{}: ", launcher.name));
      break;
    }
  }
  if (own.rank >= 0 && own.world_size >= 0) info.launcher = "fabring";
  take_own(environment, own, info);
  if (info.world_size == 1 && info.rank == 0 && info.master_addr.empty()) {
    info.master_addr = "127.0.0.1";  // nobody to meet
    info.sources["FABRING_MASTER_ADDR"] = "default (one rank)";
  }
  if (found.complete.ok()) found.complete = check(info, advice, environment);
  if (found.complete.ok() && info.master_port == 0) {
    info.master_port = default_master_port;
    info.sources["FABRING_MASTER_PORT"] = "default";
  }
  return found;
}

Result<LaunchInfo> read_launch_environment(const Environment& environment, const Config& own,
                                           const LaunchFacts& facts) {
  FoundLaunch found = find_launch(environment, own, facts);
  if (!found.complete) return found.complete;
  return std::move(found.info);
}

}  // namespace fabring
