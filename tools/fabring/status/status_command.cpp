// `fabring status`: what every rank of a running job is doing, and whom it waits for. The job is asked over unix
// sockets of this host and goes on undisturbed.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/rank_list.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/status/job_picture.hpp"
#include "tools/fabring/status/job_text.hpp"

namespace fabring::tools {
namespace {

struct StatusOptions : CommonOptions {
  std::string job;
};

nlohmann::ordered_json as_json(const OperationState& operation, const RankState& state) {
  nlohmann::ordered_json peers = nlohmann::ordered_json::array();
  for (const PeerState& peer : operation.peers)
    peers.push_back({{"rank", peer.rank},
                     {"awaited", peer.awaited},
                     {"sent", peer.sent},
                     {"to_send", peer.to_send},
                     {"received", peer.received},
                     {"to_receive", peer.to_receive},
                     {"in_flight", peer.in_flight},
                     {"sends_in_flight", peer.sends_in_flight}});
  return {{"communicator", label_of(state, operation.communicator)},
          {"sequence", operation.sequence},
          {"call", operation.call},
          {"bytes", operation.bytes},
          {"phase", name(operation.phase)},
          {"begun_ms", operation.begun_ms},
          {"stuck_ms", operation.stuck_ms},
          {"peer_count", operation.peer_count},
          {"peers", peers}};
}

nlohmann::ordered_json as_json(const MemoryAccount& memory) {
  return {{"held", memory.held()},
          {"peers", memory.peers},
          {"channels", memory.channels},
          {"posted", memory.posted},
          {"landings", memory.landings},
          {"outgoing", memory.outgoing},
          {"scratch",
           {{"held", memory.scratch},
            {"lent", memory.scratch_lent},
            {"most", memory.scratch_most},
            {"limit", memory.scratch_limit}}},
          {"pinned", {{"held", memory.pinned}, {"limit", memory.pinned_limit}}},
          {"copies", memory.copies},
          {"mapped", memory.mapped}};
}

nlohmann::ordered_json as_json(const RankPicture& rank) {
  nlohmann::ordered_json out{{"rank", rank.rank},
                             {"host", rank.host},
                             {"pid", rank.pid},
                             {"answer", name(rank.answering)},
                             {"silent_ms", rank.silent_ms}};
  if (!rank.state) return out;
  nlohmann::ordered_json communicators = nlohmann::ordered_json::array(), operations = communicators;
  for (const CommunicatorState& one : rank.state->communicators)
    communicators.push_back({{"label", one.label},
                             {"members", one.members},
                             {"called", one.called},
                             {"last_call", one.last_call},
                             {"failure", one.failure},
                             {"shrunk", one.shrunk}});
  for (const OperationState& one : rank.state->operations) operations.push_back(as_json(one, *rank.state));
  out["up_ms"] = rank.state->up_ms;
  out["idle_ms"] = rank.state->idle_ms;
  out["driver"] = name(rank.state->driver);
  out["leaving"] = rank.state->leaving;
  out["left_out"] = rank.state->left_out;
  out["strangers"] = rank.state->strangers;
  if (rank.state->memory) out["memory"] = as_json(*rank.state->memory);
  out["communicator_count"] = rank.state->communicator_count;
  out["communicators"] = std::move(communicators);
  out["operation_count"] = rank.state->operation_count;
  out["operations"] = std::move(operations);
  return out;
}

std::string as_json(const std::vector<JobPicture>& jobs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JobPicture& job : jobs) {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const RankPicture& rank : job.ranks) ranks.push_back(as_json(rank));
    list.push_back(
        {{"job", job.job_id}, {"tag", job.tag}, {"version", job.version}, {"asked", job.asked}, {"ranks", ranks}});
  }
  const nlohmann::ordered_json all{{"schema", 1}, {"jobs", list}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int run(const StatusOptions& options) {
  Output out;
  if (const Status status = out.open(options.output); !status.ok()) return could_not_run("status", status);
  const auto limit = limit_of(options);
  auto jobs = look_at_jobs(options.job, limit);
  if (!jobs) return could_not_run("status", jobs.error());
  if (jobs->empty() ||
      (!options.json && std::all_of(jobs->begin(), jobs->end(), [](const JobPicture& job) { return job.foreign; }))) {
    return could_not_run("status", no_job_text(options.job, !jobs->empty() || others_have_jobs(limit)));
  }
  std::string text;
  for (const JobPicture& job : *jobs)
    text += (text.empty() ? "" : "\n") + job_text(job) + (options.explain ? asked_text(job) : "");
  out.write(options.json ? as_json(*jobs) : text);
  if (options.json && options.explain)  // stdout is JSON and nothing else
    for (const JobPicture& job : *jobs) std::cerr << asked_text(job);
  const Status status = out.finish();
  if (status.ok()) return exit_fine;
  return could_not_run("status", status);
}

}  // namespace

void add_status(CLI::App& app, Session& session) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = app.add_subcommand("status", "What every rank of a running job is doing, and whom it waits for");
  command->add_option("job", options->job, "A job by FABRING_JOB_ID, by the tag shown here, or by a rank's pid (all)")
      ->type_name("JOB");
  options->timeout_s = 6;
  add_common_options(*command, *options,
                     {.json = "As JSON",
                      .explain = "Also who was asked about which ranks, and how (with --json on stderr)",
                      .timeout = "Time to wait for answers at most"});
  command->footer(
      "Asks the ranks of this host that run as the same user, and through them those of other hosts; in a container,\n"
      "run it inside. `fabring doctor hang` says what is wrong. FABRING_STATUS=no makes a rank answer nobody.\n"
      "Exit codes: 0 fine, 2 usage, 3 no such job, or it cannot be asked.\n"
      "Example: fabring status");
  command->callback([options, &session] { session.exit_code = run(*options); });
}

}  // namespace fabring::tools
