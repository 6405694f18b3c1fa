#include "tools/fabring/launch/rank_group.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace fabring::tools {
namespace {

constexpr std::size_t polled_entries = 3;  // of each rank

constexpr std::size_t most_read = 65536;

// What torchrun, and who speaks its names, says of a rank. Not by their beginnings: others of these are a program's
// own, or settings for a torchrun below.
constexpr std::string_view named_by_torchrun[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
};

// False at the end of the stream.
bool pump(int from, int rank, OutputStream stream, RankEvents& events, std::size_t most = most_read) {
  char bytes[most_read];
  const ssize_t got = ::read(from, bytes, most);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) return false;
  events.rank_output(rank, stream, {bytes, static_cast<std::size_t>(got)});
  return true;
}

// What is in the pipe now, and no more: others may hold it and go on printing.
void pump_what_is_there(int from, int rank, OutputStream stream, RankEvents& events) {
  int there = 0;
  if (from < 0 || ::ioctl(from, FIONREAD, &there) != 0) return;
  for (auto left = static_cast<std::size_t>(there); left > 0; left -= std::min(left, most_read))
    pump(from, rank, stream, events, std::min(left, most_read));
}

}  // namespace

std::string pretended_node(int rank, int ranks, int nodes) {
  return fmt::format("node{}", std::int64_t{rank} * nodes / ranks);
}

void set_place(const RankPlace& place, Environment& environment) {
  // Those of a launcher around this one are no rank's of this job. So whoever finds some later knows that they are from
  // further in, and count.
  for (const std::string_view name : named_by_torchrun)
    if (const auto at = environment.find(name); at != environment.end()) environment.erase(at);
  environment[std::string(mark_of_place)] = fmt::format("{}/{}", place.rank, place.world_size);
  environment["FABRING_RANK"] = std::to_string(place.rank);
  environment["FABRING_LOCAL_RANK"] = std::to_string(place.local_rank);
  environment["FABRING_WORLD_SIZE"] = std::to_string(place.world_size);
  environment["FABRING_MASTER_ADDR"] = place.master_addr;
  environment["FABRING_MASTER_PORT"] = std::to_string(place.master_port);
  environment["FABRING_JOB_ID"] = place.job_id;
}

RankGroup::~RankGroup() {
  for (Member& member : members_) {
    const pid_t group = member.process.pid();
    member.process.finish();
    if (group > 0) lifeline_.release(group);
  }
}

Status RankGroup::start(int rank, const ChildStart& start) {
  auto process = ChildProcess::start(start);
  if (!process) return process.error().with_prefix(fmt::format("rank {}: ", rank));
  lifeline_.entrust(process->pid());
  members_.push_back({rank, std::move(*process)});
  return {};
}

void RankGroup::watch(std::vector<pollfd>& polled, bool read_out, bool read_err) const {
  for (const Member& member : members_) {
    polled.push_back({read_out ? member.process.output() : -1, POLLIN, 0});  // poll skips negative ones
    polled.push_back({read_err ? member.process.errors() : -1, POLLIN, 0});
    polled.push_back({member.ended ? -1 : member.process.end(), POLLIN, 0});  // for look_for_ends()
  }
}

void RankGroup::read(std::span<const pollfd> polled, RankEvents& events) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (polled[polled_entries * i].revents != 0 &&
        !pump(member.process.output(), member.rank, OutputStream::out, events))
      member.process.close_output();
    if (polled[polled_entries * i + 1].revents != 0 &&
        !pump(member.process.errors(), member.rank, OutputStream::err, events))
      member.process.close_errors();
  }
}

void RankGroup::look_for_ends(RankEvents& events) {
  for (Member& member : members_) {
    if (member.ended) continue;
    const std::optional<Ending> ending = member.process.ending();
    if (!ending) continue;
    member.ended = true;
    pump_what_is_there(member.process.output(), member.rank, OutputStream::out, events);
    pump_what_is_there(member.process.errors(), member.rank, OutputStream::err, events);
    events.rank_ended(member.rank, member.process.pid(), *ending);
  }
}

int RankGroup::running() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const Member& m) { return !m.ended; }));
}

std::vector<pid_t> RankGroup::pids() const {
  std::vector<pid_t> all;
  for (const Member& member : members_) all.push_back(member.process.pid());
  return all;
}

bool RankGroup::has_open_output() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& m) { return m.process.output() >= 0 || m.process.errors() >= 0; });
}

void RankGroup::signal(int number) const {
  for (const Member& member : members_)
    if (!member.ended) member.process.signal(number);
}

}  // namespace fabring::tools
