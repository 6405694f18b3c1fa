#include "tools/fabring/status/job_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "runtime/base/named_thread.hpp"
#include "runtime/status/status_visit.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t visitors_at_once = 64;
constexpr int most_job_ranks = 1 << 20;

Answering of(const StatusVisit& door) {
  switch (door.outcome) {
    case StatusVisit::Outcome::answered:
      return Answering::answered;
    case StatusVisit::Outcome::foreign:
    case StatusVisit::Outcome::refused:
      return Answering::foreign;
    case StatusVisit::Outcome::silent:
      return door.process == 'T' || door.process == 't' ? Answering::stopped : Answering::silent;
    case StatusVisit::Outcome::nonsense:
      return Answering::silent;
    case StatusVisit::Outcome::gone:
      break;
  }
  return Answering::unknown;
}

Answering of(RankNews::Presence presence) {
  switch (presence) {
    case RankNews::Presence::answered:
      return Answering::answered;
    case RankNews::Presence::left:
      return Answering::left;
    case RankNews::Presence::unreachable:
      return Answering::unreachable;
    case RankNews::Presence::silent:
      break;
  }
  return Answering::silent;
}

void visit_all(std::vector<StatusVisit>& doors, std::chrono::milliseconds limit) {
  for (std::size_t from = 0; from < doors.size(); from += visitors_at_once) {
    std::vector<std::thread> visitors;
    const std::size_t end = std::min(doors.size(), from + visitors_at_once);
    for (std::size_t i = from; i < end; ++i) {
      const auto call = [&door = doors[i], limit] { visit(door, false, limit); };
      // Under a limit on threads one after the other: slower, but an operator who looks for a hang gets an answer.
      if (auto visitor = start_thread("fabring visit", call))
        visitors.push_back(std::move(*visitor));
      else
        call();
    }
    for (std::thread& visitor : visitors) visitor.join();
  }
}

RankPicture& seat(JobPicture& job, Rank rank) {
  while (job.ranks.size() <= static_cast<std::size_t>(rank)) {
    RankPicture empty;
    empty.rank = static_cast<Rank>(job.ranks.size());
    job.ranks.push_back(empty);
  }
  return job.ranks[static_cast<std::size_t>(rank)];
}

void take_state(JobPicture& job, RankPicture& rank, const std::string& bytes) {
  rank.state = RankState::decode(bytes);
  if (!rank.state || rank.state->rank != rank.rank || rank.state->world < 1 || rank.state->world > most_job_ranks) {
    rank.state.reset();
    rank.answering = Answering::silent;
    return;
  }
  rank.host = rank.state->host;
  job.job_id = rank.state->job_id;
  job.version = rank.state->version;
  seat(job, rank.state->world - 1);
}

void add_local(JobPicture& job, const StatusVisit& door) {
  if (door.outcome == StatusVisit::Outcome::gone) return;
  // Anybody may take a name that looks like ours: it makes no seats.
  if (of(door) == Answering::foreign && static_cast<std::size_t>(door.who.rank) >= job.ranks.size()) return;
  RankPicture rank = seat(job, door.who.rank);
  rank.answering = of(door);
  rank.local = true;
  rank.pid = door.pid;
  rank.process = door.process;
  if (rank.answering == Answering::answered) take_state(job, rank, door.news.front().state);
  seat(job, door.who.rank) = std::move(rank);
}

// What this host's sockets did not tell, the control plane may.
void add_news(JobPicture& job, const std::vector<RankNews>& all) {
  for (const RankNews& news : all) {
    if (news.rank < 0 || news.rank >= most_job_ranks) continue;
    RankPicture rank = seat(job, news.rank);
    rank.host = news.host.empty() ? rank.host : news.host;
    rank.silent_ms = news.silent_ms;
    if (rank.pid == 0) rank.pid = news.pid;
    if (rank.answering == Answering::unknown || rank.answering == Answering::silent) {
      const Answering said = of(news.presence);
      if (!rank.local || said != Answering::silent) rank.answering = said;
      if (said == Answering::answered) take_state(job, rank, news.state);
    }
    seat(job, news.rank) = std::move(rank);
  }
}

void ask_for_others(JobPicture& job, std::vector<StatusVisit>& doors, std::chrono::milliseconds limit) {
  const bool all_known = std::all_of(job.ranks.begin(), job.ranks.end(), [](const RankPicture& rank) {
    return rank.local && (rank.answering == Answering::answered || rank.answering == Answering::stopped);
  });
  if (all_known) return;
  int attempts = 2;
  for (StatusVisit& door : doors) {
    if (door.who.job != job.tag || door.outcome != StatusVisit::Outcome::answered || attempts-- == 0) continue;
    StatusVisit again = door;
    visit(again, true, limit);
    if (again.outcome != StatusVisit::Outcome::answered) continue;
    job.asked = door.who.rank;
    return add_news(job, again.news);
  }
}

// The name of a job none of whose ranks here answers: as the environment of one's process has it.
std::string started_as(const JobPicture& job) {
  constexpr std::string_view name = "FABRING_JOB_ID=";
  for (const RankPicture& rank : job.ranks) {
    if (!rank.local || rank.pid <= 0) continue;
    std::ifstream environment(fmt::format("/proc/{}/environ", rank.pid), std::ios::binary);
    for (std::string line; std::getline(environment, line, '\0');)
      if (line.starts_with(name)) {
        for (char& letter : line)
          if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
        return line.substr(name.size());
      }
  }
  return {};
}

bool is_meant(const JobPicture& job, const std::string& words) {
  if (words.empty() || job.job_id == words || (words.size() >= 4 && job.tag.starts_with(words))) return true;
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [&](const RankPicture& rank) { return rank.local && std::to_string(rank.pid) == words; });
}

}  // namespace

std::string_view name(Answering answering) {
  switch (answering) {
    case Answering::answered:
      return "answered";
    case Answering::stopped:
      return "stopped";
    case Answering::silent:
      return "silent";
    case Answering::left:
      return "left";
    case Answering::unreachable:
      return "unreachable";
    case Answering::foreign:
      return "foreign";
    case Answering::unknown:
      break;
  }
  return "unknown";
}

std::string who(const RankPicture& rank) {
  std::string text = fmt::format("rank {}", rank.rank);
  if (rank.host.empty() && rank.pid == 0) return text;
  text += " (";
  if (!rank.host.empty()) text += "host " + rank.host;
  if (rank.pid != 0) text += fmt::format("{}pid {}", rank.host.empty() ? "" : ", ", rank.pid);
  return text + ")";
}

Result<std::vector<JobPicture>> look_at_jobs(const std::string& job, std::chrono::milliseconds limit) {
  auto doors = find_status_doors();
  if (!doors) return doors.error();
  visit_all(*doors, std::min<std::chrono::milliseconds>(limit / 3, std::chrono::seconds(2)));
  std::vector<JobPicture> jobs;
  for (const StatusVisit& door : *doors) {
    if (door.outcome == StatusVisit::Outcome::gone) continue;
    if (jobs.empty() || jobs.back().tag != door.who.job) jobs.push_back({door.who.job, "", "", {}, -1, true});
    jobs.back().foreign = jobs.back().foreign && of(door) == Answering::foreign;
    add_local(jobs.back(), door);
  }
  // Once more, now that the others have said how many ranks there are.
  for (JobPicture& one : jobs)
    for (const StatusVisit& door : *doors)
      if (door.who.job == one.tag && of(door) == Answering::foreign) add_local(one, door);
  for (JobPicture& one : jobs)
    if (one.job_id.empty() && !one.foreign) one.job_id = started_as(one);
  std::erase_if(jobs, [&](const JobPicture& one) { return !is_meant(one, job); });
  for (JobPicture& one : jobs) {
    ask_for_others(one, *doors, limit / 2);
    // Ranks of this host that cannot say so themselves are on the host of those that can.
    for (RankPicture& rank : one.ranks)
      for (const RankPicture& other : one.ranks)
        if (rank.local && rank.host.empty() && other.local && other.state) rank.host = other.host;
    for (RankPicture& rank : one.ranks)
      if (rank.local && rank.host.empty()) rank.host = host_name();
  }
  return jobs;
}

bool others_have_jobs(std::chrono::milliseconds limit) {
  const auto jobs = look_at_jobs("", limit);
  return jobs && std::any_of(jobs->begin(), jobs->end(), [](const JobPicture& job) { return job.foreign; });
}

}  // namespace fabring::tools
