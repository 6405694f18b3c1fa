// `fabring doctor net`: can every rank reach every other, both ways, as a job's ranks would; and in what do their hosts
// differ. All ranks run it, with the environment of a job. What they find travels over the rendezvous, so it works
// where nothing else does.

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "fabring/version.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/environment_config.hpp"
#include "runtime/startup/host_rails.hpp"
#include "tools/fabring/doctor/blob_exchange.hpp"
#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/doctor/net_calls.hpp"
#include "tools/fabring/doctor/net_doors.hpp"
#include "tools/fabring/doctor/net_gathering.hpp"
#include "tools/fabring/doctor/net_verdict.hpp"
#include "tools/fabring/doctor/report.hpp"
#include "tools/fabring/launch/own_ranks.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/start_together.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"
#include "topology/rail_choice.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct NetOptions {
  int ranks = 0;
  ReportOptions report;
};

std::vector<std::string> settings_of(const Environment& environment) {
  static const std::set<std::string_view> of_one_rank{"FABRING_RANK", "FABRING_LOCAL_RANK", "FABRING_HOST_ID",
                                                      "FABRING_SECRET_FILE", "FABRING_MASTER_ADDR"};
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment)
    if (name.starts_with("FABRING_") && !of_one_rank.contains(name) && !is_service_variable(name, value))
      lines.push_back(name + "=" + value);
  return lines;
}

// One rank's part, from the rendezvous to the verdict.
class NetCheck {
 public:
  NetCheck(const NetOptions& options, Config config)
      : options_(options), config_(std::move(config)), log_(LogLevel::warning, config_.rank) {}

  int run() {
    // The others wait for rank 0's verdict: it meets them even if it could not write it down.
    const bool writable = config_.rank != 0 || open_report(out_, "net", options_.report);
    const auto limit = limit_of(options_.report);
    if (!config_.secret_file.empty()) {
      auto secret = read_secret(config_.secret_file);
      if (!secret) return writable ? could_not_meet(secret.error()) : exit_could_not_run;
      secret_ = std::move(*secret);
    }
    auto bootstrap = rendezvous(config_, secret_, log_);
    if (!bootstrap) return writable ? could_not_meet(bootstrap.error()) : exit_could_not_run;
    const int code = check_with(**bootstrap, limit, writable);
    (*bootstrap)->finish();
    return code;
  }

 private:
  int check_with(Bootstrap& bootstrap, std::chrono::milliseconds limit, bool writable) {
    // They have met as slowly as a job may; the limit is for what follows.
    const SteadyTime met = std::chrono::steady_clock::now(), end = met + limit;
    BlobExchange exchange(bootstrap);
    if (!writable) {
      (void)exchange.put("net/doors", encode_doors({}));
      (void)exchange.put("net/verdict", std::string(1, static_cast<char>('0' + exit_could_not_run)));
      return exit_could_not_run;
    }
    const HandshakeOptions greeting = greeting_for(config_, secret_, bootstrap.job_nonce(), Purpose::data);
    ProbeLimits limits;
    limits.connect = std::min(limits.connect, std::chrono::duration_cast<std::chrono::milliseconds>(end - met) / 5);
    NetProbe probe(greeting, limits);
    NetFacts facts;
    facts.rank = config_.rank;
    facts.host = host_name();
    facts.fingerprint = host_fingerprint();
    facts.version = FABRING_VERSION;
    facts.pid = static_cast<std::uint32_t>(::getpid());
    facts.settings = settings_of(process_environment());
    FabricProbe fabric(limits.large);
    open_doors(config_, bootstrap, secret_, probe, fabric, facts);
    Status status = probe.start();
    if (status.ok()) status = exchange.put(fmt::format("net/facts/{}", config_.rank), facts.encode());
    // Facts within a quarter of what is left, probes until three quarters.
    const SteadyTime told = met + (end - met) / 4, called = met + (end - met) * 3 / 4;
    if (status.ok() && config_.rank == 0) status = gather_facts(exchange, config_.world_size, picture_, told);
    std::vector<Probe> found;
    if (status.ok()) {
      auto doors = exchange.get("net/doors", told);
      if (doors) {
        const NetCalls calls = calls_of(*doors, facts, config_.world_size, way_out);
        status = call_all(calls, probe, fabric, exchange, called, found);
        for (Probe& one : found) tell_way(facts, calls, one);
      } else {
        status = late(doors.error(), "said who is to call whom");
      }
      if (status.ok()) status = exchange.put(fmt::format("net/found/{}", config_.rank), encode(found));
    }
    if (config_.rank != 0) return wait_for_verdict(exchange, end, status);
    if (status.ok()) status = gather_probes(exchange, picture_, called + (end - called) / 2);
    return judge_all(exchange, status);
  }

  // What is missing, and not under which name it would have come.
  static Status late(const Status& why, std::string_view what) {
    if (why.code() != ErrorCode::timeout) return why;
    return {ErrorCode::timeout, fmt::format("rank 0 has not {} in time: give more with --timeout", what)};
  }

  Status call_all(const NetCalls& calls, NetProbe& probe, FabricProbe& fabric, BlobExchange& exchange,
                  SteadyTime deadline, std::vector<Probe>& found) {
    FABRING_TRY(fabric.start(calls.fabric));
    FABRING_TRY(exchange.put(fmt::format("net/receiving/{}", config_.rank), ""));
    found = probe.call(calls.plain, deadline);
    found.insert(found.end(), calls.unrouted.begin(), calls.unrouted.end());
    if (config_.rank == 0 && any_fabric(picture_.ranks)) FABRING_TRY(let_go(exchange, deadline));
    if (calls.fabric.empty()) return {};
    const auto go = exchange.get("net/go", deadline);
    if (!go && go.error().code() != ErrorCode::timeout) return go.error();
    for (Probe& one : go ? call_over_fabric(calls, found, probe, fabric, deadline) : untried(calls.fabric))
      found.push_back(std::move(one));
    return {};
  }

  // No message may come before its receive is posted: rank 0 says when all are, or when one takes too long.
  Status let_go(BlobExchange& exchange, SteadyTime deadline) {
    const SteadyTime now = std::chrono::steady_clock::now(), patience = now + (deadline - now) / 2;
    for (Rank rank = 0; rank < config_.world_size; ++rank) {
      if (!picture_.ranks[static_cast<std::size_t>(rank)]) continue;
      const auto there = exchange.get(fmt::format("net/receiving/{}", rank), patience);
      if (!there && there.error().code() != ErrorCode::timeout) return there.error();
    }
    return exchange.put("net/go", "");
  }

  int judge_all(BlobExchange& exchange, const Status& status) {
    std::set<std::string> hosts;
    for (const auto& facts : picture_.ranks)
      if (facts) hosts.insert(facts->fingerprint);
    Report report;
    report.part = "net";
    report.subject = fmt::format(
        "{} ranks{}, met at {}:{}", config_.world_size,
        hosts.empty() ? std::string() : fmt::format(" on {} host{}", hosts.size(), hosts.size() == 1 ? "" : "s"),
        config_.master_addr, config_.master_port);
    report.findings = picture_.ranks.empty() ? Findings() : judge(picture_);
    if (!status.ok()) report.findings.insert(report.findings.begin(), ended_early(status));
    report.complete = std::none_of(report.findings.begin(), report.findings.end(),
                                   [](const Finding& one) { return one.severity == Severity::not_checked; });
    report.seconds = seconds();
    nlohmann::ordered_json json = report_json(report);
    add_matrix(json);
    const int code = exit_code(report, options_.report.strict);
    (void)exchange.put("net/verdict", std::string(1, static_cast<char>('0' + code)));
    return deliver(report, json, options_.report, out_);
  }

  void add_matrix(nlohmann::ordered_json& json) const {
    static constexpr const char* names[] = {"fine",         "refused",   "no_answer",     "no_route",
                                            "cut",          "mute",      "wrong_service", "turned_away",
                                            "large_stalls", "not_tried", "unrouted"};
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (std::size_t rank = 0; rank < picture_.ranks.size(); ++rank) {
      nlohmann::ordered_json one{{"rank", rank}};
      if (const auto& facts = picture_.ranks[rank]) {
        one["host"] = facts->host;
        one["pid"] = facts->pid;
        for (const Door& door : facts->doors)
          one["doors"].push_back({{"purpose", door.purpose},
                                  {"interface", door.interface},
                                  {"network", door.network},
                                  {"address", door.address},
                                  {"mtu", door.mtu}});
        one["interfaces"] = facts->interfaces;
        one["networks"] = facts->networks;
        one["provider"] = facts->provider;
      }
      if (const auto& probes = picture_.probes[rank])
        for (const Probe& probe : *probes)
          one["probes"].push_back({{"to", probe.to},
                                   {"door", probe.door},
                                   {"result", names[static_cast<int>(probe.reach)]},
                                   {"rtt_us", probe.rtt_us},
                                   {"offset_us", probe.offset_us},
                                   {"large_ms", probe.large_ms},
                                   {"path_mtu", probe.path_mtu},
                                   {"segment", probe.segment},
                                   {"text", probe.text}});
      ranks.push_back(std::move(one));
    }
    json["ranks"] = std::move(ranks);
  }

  // All ranks end with the same exit code, so that a prolog or init container on any host has the verdict.
  int wait_for_verdict(BlobExchange& exchange, SteadyTime end, const Status& status) {
    auto verdict = exchange.get("net/verdict", end);
    if (verdict && verdict->size() == 1 && (*verdict)[0] >= '0' && (*verdict)[0] <= '3') return (*verdict)[0] - '0';
    const Status why = !status.ok() ? status
                       : verdict    ? Status(ErrorCode::mismatch, "rank 0 sent no verdict")
                                    : late(verdict.error(), "told its verdict");
    const std::string text = fmt::format("rank {}: {}", config_.rank, why.message());
    if (why.code() != ErrorCode::peer_lost) return could_not_run("doctor net", text);
    complain("doctor net", text);  // a critical finding of rank 0's, which has no way left to say so
    return exit_wrong;
  }

  // Each rank says what it knows itself: who is missing is known at the master only. The report is rank 0's, as always.
  int could_not_meet(const Status& why) {
    if (config_.rank != 0) {
      complain("doctor net", fmt::format("{} (host {}, meeting at {}:{})", said_by(config_.rank, why).message(),
                                         host_name(), config_.master_addr, config_.master_port));
      return exit_wrong;
    }
    Report report;
    report.part = "net";
    report.subject = fmt::format("rank 0 of {} (host {}), meeting at {}:{}", config_.world_size, host_name(),
                                 config_.master_addr, config_.master_port);
    report.findings = {{why.code() == ErrorCode::mismatch ? "net.mismatch" : "net.rendezvous", Severity::critical,
                        why.message(), "without it no job starts, and nothing more can be checked",
                        "start the missing ranks, or look why they do not reach this address: "
                        "`fabring doctor net` there says what they see",
                        why.context().rank < 0 ? std::string() : fmt::format("rank {}", why.context().rank)}};
    report.seconds = seconds();
    return deliver(report, options_.report, out_);
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

  const NetOptions& options_;
  Config config_;
  const Log log_;
  const SteadyTime began_ = std::chrono::steady_clock::now();
  std::string secret_;
  Output out_;
  NetPicture picture_;
};

int no_rank_starts(const Status& why) {
  complain("doctor net", why.message() + "; no rank starts with it");
  return exit_wrong;
}

int check(const NetOptions& options) {
  auto resolved = resolve_config(process_environment(), launch_facts());
  if (!resolved) return no_rank_starts(resolved.error());
  if (!resolved->launch.ok())
    return could_not_run("doctor net", resolved->launch.message() + "; or start ranks on this host with -n N");
  Config& config = resolved->config;
  if (config.world_size < 2) return wrong_usage("doctor net", "one rank has nobody to reach: start at least two");
  return NetCheck(options, std::move(config)).run();
}

int run(const NetOptions& options, const Session& session) {
  if (options.ranks == 0) return check(options);
  if (options.ranks == 1) return wrong_usage("doctor net", "-n 1: one rank has nobody to reach");
  if (const Status settings = check_settings_of_ranks(options.ranks); !settings.ok()) return no_rank_starts(settings);
  // Rank 0 writes it; found out here, no rank waits for one that could not.
  if (const Status file = Output::check(options.report.output); !file.ok()) return could_not_run("doctor net", file);
  auto code = run_own_ranks(session.arguments, options.ranks, "doctor net");
  if (code) return *code;
  return could_not_run("doctor net", code.error());
}

}  // namespace

void add_doctor_net(CLI::App& doctor, Session& session) {
  auto options = std::make_shared<NetOptions>();
  CLI::App* command = doctor.add_subcommand("net", "Does every rank reach every other, and in what do hosts differ");
  command
      ->add_option("-n", options->ranks,
                   "Start N ranks on this host; without it the environment says which rank this is")
      ->check(between(1, 4096))
      ->type_name("N");
  add_report_options(*command, options->report, 20,
                     "Over which interfaces and networks every pair was reached: lists what is fine too");
  command->footer(
      "Every pair, both ways, at every port that a job would use: the control plane's, one on each network card, "
      "and\n"
      "libfabric's where a job would take it. Refused, dropped, reset and a wrong service are told apart; 64 KiB "
      "beside\n"
      "small messages find an MTU that is too small on the way. Versions, settings, interfaces and clocks are "
      "compared.\n"
      "The ranks wait for each other as a job's do (FABRING_RENDEZVOUS_TIMEOUT); --timeout counts from then on.\n"
      "All ranks run this: under fabring run, torchrun, srun, mpirun, or here with -n. Rank 0 reports;\n"
      "all ranks end with its exit code: 0 fine or warnings only, 1 a critical finding, 2 usage, 3 could not check.\n"
      "Example: fabring run --hosts a:1,b:1,c:1 -- fabring doctor net");
  command->callback([options, &session] { session.exit_code = run(*options, session); });
}

}  // namespace fabring::tools
