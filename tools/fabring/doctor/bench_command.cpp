// `fabring doctor bench`: latency and bandwidth between every two hosts, over the transport that a job would use, and
// what stands out. All ranks run it, with the environment of a job.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/fabring/alarm.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/doctor/bench_cards.hpp"
#include "tools/fabring/doctor/bench_picture.hpp"
#include "tools/fabring/doctor/bench_run.hpp"
#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/doctor/report.hpp"
#include "tools/fabring/launch/own_ranks.hpp"
#include "tools/fabring/operand_words.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/perf/engine_report.hpp"
#include "tools/fabring/progress_notes.hpp"
#include "tools/fabring/start_together.hpp"
#include "topology/interfaces.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto note_pause = std::chrono::seconds(3);  // of a minute, usually

struct BenchOptions {
  int ranks = 0;
  double expect = 0;
  double measure_ms = 100;
  std::string svg, transport;
  ReportOptions report;
};

// "interface eth0 10.0.0.1: ...": its speed, if a device and not a kernel's imitation says so.
double link_GBps(const Engine& engine) {
  for (const std::string& line : engine.report()) {
    constexpr std::string_view label = "interface ";
    if (!line.starts_with(label)) continue;
    const std::string name = line.substr(label.size(), line.find(' ', label.size()) - label.size());
    std::error_code error;
    if (!std::filesystem::exists("/sys/class/net/" + name + "/device", error)) return 0;
    return link_megabits(name) / 8000.0;
  }
  return 0;
}

// What was measured: between hosts the network.
std::string measured_transport(const Engine& engine, int hosts) {
  const auto lines = transport_lines(engine.report());
  if (lines.empty()) return engine.config().transport;
  const TransportLine& one = hosts > 1 ? lines.back() : lines.front();
  return one.name + ": " + one.description;
}

Finding stopped(const Status& status, bool started) {
  if (status.code() == ErrorCode::aborted)
    return {"bench.stuck",
            Severity::critical,
            status.message(),
            "data that do not arrive between two ranks stop a whole job",
            "`fabring doctor net` tells which pairs pass 64 KiB; a smaller MTU on the way is the usual cause",
            ""};
  return {started ? "bench.lost" : "bench.start",
          Severity::critical,
          status.message(),
          started ? "a job on these hosts would end the same way" : "a job on these hosts would not start either",
          started ? "`fabring doctor net` tells which pairs can talk; the rank's own output may say more"
                  : "`fabring doctor net` tells which pairs can talk and what differs between hosts",
          status.context().rank < 0 ? std::string() : fmt::format("rank {}", status.context().rank)};
}

nlohmann::ordered_json as_json(const Report& report, const BenchRun& run, const std::vector<CardMatrix>& cards) {
  nlohmann::ordered_json json = report_json(report);
  json["players"] = run.matrix.names;
  json["GBps"] = run.matrix.GBps;
  json["latency_us"] = run.matrix.latency_us;
  json["rounds"] = run.rounds;
  json["rounds_done"] = run.rounds_done;
  json["expected_GBps"] = run.matrix.expected_GBps;
  json["cards"] = nlohmann::ordered_json::array();
  for (const CardMatrix& one : cards)
    json["cards"].push_back({{"card", one.card}, {"network", one.network}, {"GBps", one.matrix.GBps}});
  return json;
}

Status open_files(const BenchOptions& options, Output& out, Output& picture) {
  FABRING_TRY(out.open(options.report.output));
  return picture.open(options.svg, "--svg");
}

int report_start(const BenchOptions& options, const Status& why, double seconds, Output& out) {
  Report report;
  report.part = "bench";
  report.subject = "did not start";
  report.findings = {stopped(why, false)};
  report.seconds = seconds;
  report.complete = false;
  return deliver(report, options.report, out);
}

// What the job is configured for, within the time that there is.
Config bench_config(Config config, const BenchOptions& options) {
  const auto limit = limit_of(options.report);
  if (!options.transport.empty()) config.transport = options.transport;
  if (options.report.explain) config.explain = true;
  config.rendezvous_timeout = std::min(config.rendezvous_timeout, limit / 2);
  config.timeout = std::min(config.timeout, limit);
  const std::chrono::milliseconds least(2000);  // of that setting
  config.silence_timeout = std::min(config.silence_timeout, std::max<std::chrono::milliseconds>(least, limit / 3));
  return config;
}

std::chrono::milliseconds time_of_measure(const BenchOptions& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.measure_ms));
}

// On all ranks. A link that swallows data would hold what is under way for ever: at the `end` it is broken off.
Result<BenchRun> run_pairs(Communicator world, SteadyTime deadline, SteadyTime end, const BenchOptions& options,
                           const BenchNews& news) {
  Alarm hard;
  FABRING_TRY(hard.set(
      end, [world]() mutable { world.abort("the time is up (--timeout) and a measurement is still under way"); }));
  return measure_pairs(std::move(world), deadline, time_of_measure(options), news);
}

struct BenchCards {
  std::vector<CardMatrix> measured;
  Findings unmeasured;
};

// On all ranks, once the pairs are measured. Where ranks use several cards, the engine has been left afterwards.
BenchCards run_cards(Engine& engine, const Config& config, SteadyTime deadline, const BenchOptions& options,
                     const BenchNews& news) {
  BenchCards cards;
  if (auto found = cards_in_use(engine, deadline, cards.unmeasured)) cards.measured = std::move(*found);
  if (cards.measured.empty()) return cards;
  (void)engine.leave();
  measure_cards(cards.measured, config, deadline, time_of_measure(options), news);
  return cards;
}

std::string ranks_and_hosts(int ranks, int hosts) {
  return fmt::format("{} rank{} on {} host{}", ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s");
}

Report bench_report(const BenchRun& run, const BenchCards& cards, int ranks, const std::string& transport) {
  Report report;
  report.part = "bench";
  report.subject = fmt::format("{}, {} of {} rounds, transport {}", ranks_and_hosts(ranks, run.hosts), run.rounds_done,
                               run.rounds, transport);
  report.findings = judge(run.matrix);
  for (Finding& finding : judge_cards(cards.measured)) report.findings.push_back(std::move(finding));
  report.findings.insert(report.findings.end(), cards.unmeasured.begin(), cards.unmeasured.end());
  if (!run.status.ok()) report.findings.insert(report.findings.begin(), stopped(run.status, true));
  report.complete = run.status.ok() && run.rounds_done == run.rounds;
  report.picture = matrix_text(run.matrix) + latency_text(run.matrix);
  for (const CardMatrix& one : cards.measured)
    if (!one.matrix.GBps.empty())
      report.picture += fmt::format("\n{} alone ({}):\n{}", one.card, one.network, matrix_text(one.matrix));
  return report;
}

Status draw_matrix(const BenchRun& run, int ranks, const BenchOptions& options, Output& picture) {
  if (options.svg.empty()) return {};
  picture.write(heat_map(run.matrix, fmt::format("fabring doctor bench: {}", ranks_and_hosts(ranks, run.hosts))));
  return picture.finish();
}

int measure(const BenchOptions& options) {
  const SteadyTime began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  const auto limit = limit_of(options.report);
  // Leaves a fifth of the time for the round that is under way and for the end.
  const SteadyTime deadline = began + limit * 4 / 5;
  auto given = Config::from_environment();
  if (!given) return could_not_run("doctor bench", given.error().message() + "; or start ranks on this host with -n N");
  if (given->world_size < 2)
    return wrong_usage("doctor bench", "one rank has nobody to measure with: start at least two");
  const Config config = bench_config(std::move(*given), options);
  const Rank rank = config.rank;
  Output out, picture;
  const Status files = rank == 0 ? open_files(options, out, picture) : Status();
  if (!files.ok()) complain("doctor bench", files.message());
  auto engine = start_together(config, files);
  if (!engine && !files.ok()) return exit_could_not_run;
  if (!engine && rank == 0) return report_start(options, engine.error(), seconds(), out);
  if (!engine) return could_not_run("doctor bench", said_by(rank, engine.error()));
  ProgressNotes notes("doctor bench", note_pause);
  const BenchNews news = [&](const std::string& text) {
    if (rank == 0) notes.say(text);
  };
  auto run = run_pairs((*engine)->world(), deadline, began + limit, options, news);
  if (!run) return could_not_run("doctor bench", said_by(rank, run.error()));
  const int ranks = (*engine)->world().size();
  const std::string transport = measured_transport(**engine, run->hosts);
  const double link = link_GBps(**engine);
  BenchCards cards;
  if (run->status.ok() && run->hosts > 1) cards = run_cards(**engine, config, deadline, options, news);
  if (rank != 0) {
    if (!run->status.ok()) complain("doctor bench", said_by(rank, run->status).message());
    (void)(*engine)->leave();
    return run->status.ok() ? exit_fine : exit_could_not_run;
  }
  run->matrix.expected_GBps = options.expect > 0 ? options.expect : run->hosts > 1 ? link : 0;
  run->matrix.expected_by = options.expect > 0 ? "--expect" : "the interface's speed";
  Report report = bench_report(*run, cards, ranks, transport);
  const Status drawn = draw_matrix(*run, ranks, options, picture);
  if (!drawn.ok()) complain("doctor bench", drawn.message());
  (void)(*engine)->leave();
  report.seconds = seconds();
  const int code = deliver(report, as_json(report, *run, cards.measured), options.report, out);
  return drawn.ok() ? code : exit_could_not_run;
}

int run(const BenchOptions& options, const Session& session) {
  if (!options.transport.empty())
    if (const auto read = read_as_setting("FABRING_TRANSPORT", "--transport", options.transport); !read)
      return wrong_usage("doctor bench", read.error().message() + "\nTry `fabring doctor bench --help`.");
  if (const Status picture = check_picture("--svg", options.svg, options.report.output); !picture.ok())
    return wrong_usage("doctor bench", picture.message());
  if (options.ranks == 0) return measure(options);
  if (options.ranks == 1) return wrong_usage("doctor bench", "-n 1: one rank has nobody to measure with");
  if (const Status settings = check_settings_of_ranks(options.ranks); !settings.ok())
    return could_not_run("doctor bench", settings);
  // Rank 0 writes them; found out here, no rank waits for one that could not.
  Status files = Output::check(options.report.output);
  if (files.ok()) files = Output::check(options.svg, "--svg");
  if (!files.ok()) return could_not_run("doctor bench", files);
  auto code = run_own_ranks(session.arguments, options.ranks, "doctor bench");
  if (code) return *code;
  return could_not_run("doctor bench", code.error());
}

}  // namespace

void add_doctor_bench(CLI::App& doctor, Session& session) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = doctor.add_subcommand("bench", "How fast is every link, and which stands out");
  command
      ->add_option("-n", options->ranks,
                   "Start N ranks on this host; without it the environment says which rank this is")
      ->check(between(1, 4096))
      ->type_name("N");
  command
      ->add_option("--expect", options->expect,
                   "What a link should reach in GB/s (the interface's speed, if it has one)")
      ->check(above(0))
      ->type_name("GB/s");
  command->add_option("--measure-ms", options->measure_ms, "How long each direction is measured")
      ->check(between(1.0, 60000.0))
      ->capture_default_str()
      ->type_name("MS");
  command->add_option("--svg", options->svg, "Draw the matrices as heat maps")->type_name("F.svg");
  command->add_option("--transport", options->transport, "As FABRING_TRANSPORT")->type_name("LIST");
  add_report_options(*command, options->report, 60,
                     "Why this transport and these cards, on stderr (FABRING_EXPLAIN); lists what is fine too");
  command->footer(
      "On several hosts the first rank of each takes part, else all ranks; no two pairs share one at a time.\n"
      "Where ranks use several network cards, each is then measured alone and compared with the others.\n"
      "All ranks run this: under fabring run, torchrun, srun, mpirun, or here with -n. Rank 0 reports.\n"
      "Exit codes: 0 fine or warnings only, 1 a critical finding, 2 usage, 3 could not measure everything.\n"
      "Example: fabring run --hosts a:1,b:1,c:1 -- fabring doctor bench --svg links.svg");
  command->callback([options, &session] { session.exit_code = run(*options, session); });
}

}  // namespace fabring::tools
