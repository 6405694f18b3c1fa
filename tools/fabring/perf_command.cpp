// `fabring perf`: measures and checks a collective; with -n it starts its own ranks on this host.

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "collectives/choice/overrides.hpp"
#include "fabring/communicator.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/local_job.hpp"
#include "tools/fabring/perf_measure.hpp"
#include "tools/fabring/perf_options.hpp"
#include "tools/fabring/perf_report.hpp"

namespace fabring::tools {
namespace {

// As typed.
struct Words {
  std::string collective, sizes, first = "4", last = "256M", type = "float32", op = "sum", target = "100ms", cap = "6s";
  std::string transport, algorithm, memory = "host", output, target_ms, cap_s;
  double factor = 2;
  int ranks = 0, nodes = 1;
  bool no_check = false, no_progress = false;
  PerfOptions options;
};

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

// Turns the words into options. Errors are the user's.
Status understand(Words& words) {
  PerfOptions& options = words.options;
  const auto collective = parse_collective(words.collective);
  if (!collective || *collective == Collective::send || *collective == Collective::recv) {
    std::vector<std::string_view> known;
    for (int i = 0; i < collective_count; ++i)
      if (const auto one = static_cast<Collective>(i); one != Collective::send && one != Collective::recv)
        known.push_back(name(one));
    return wrong(fmt::format("'{}' is not a collective{} (known: {})", words.collective,
                             did_you_mean(words.collective, known), fmt::join(known, ", ")));
  }
  options.collective = *collective;
  const auto type = parse_data_type(words.type);
  if (!type) {
    std::vector<std::string_view> known;
    for (int i = 0; i < data_type_count; ++i) known.push_back(name(static_cast<DataType>(i)));
    return wrong(fmt::format("-d '{}' is not a data type{} (known: {})", words.type, did_you_mean(words.type, known),
                             fmt::join(known, ", ")));
  }
  options.type = *type;
  const auto op = parse_reduce_op(words.op);
  if (!op) {
    std::vector<std::string_view> known;
    for (int i = 0; i < reduce_op_count; ++i) known.push_back(name(static_cast<ReduceOp>(i)));
    return wrong(fmt::format("-o '{}' is not a reduction{} (known: {})", words.op, did_you_mean(words.op, known),
                             fmt::join(known, ", ")));
  }
  if (!supports(*type, *op)) return wrong(fmt::format("-o {}: {} has no such operation", name(*op), name(*type)));
  if (*op == ReduceOp::user) return wrong("-o user: a function of a program's own cannot be measured from here");
  options.op = *op;
  auto sizes = words.sizes.empty() ? size_steps(words.first, words.last, words.factor) : parse_sizes(words.sizes);
  if (!sizes) return sizes.error().with_prefix(words.sizes.empty() ? "" : "--sizes: ");
  options.sizes = whole_elements(*sizes, options.type);
  if (options.collective == Collective::barrier) options.sizes = {0};
  const auto number = [](const std::string& text, const char* unit, std::chrono::milliseconds& into) -> Status {
    if (text.empty()) return {};
    auto duration = parse_duration(text.find_first_not_of("0123456789.") == std::string::npos ? text + unit : text);
    if (!duration) return duration.error();
    into = *duration;
    return {};
  };
  FABRING_TRY(number(words.target_ms, "ms", options.target).with_prefix("--target-ms: "));
  FABRING_TRY(number(words.cap_s, "s", options.cap).with_prefix("--cap-s: "));
  options.check = !words.no_check;
  Config scratch;  // what the settings would refuse is refused here, before anything is started
  if (!words.transport.empty()) {
    const Setting& row = *find_setting("FABRING_TRANSPORT");
    FABRING_TRY(row.read(row, words.transport, scratch).with_prefix("--transport: "));
  }
  if (!words.algorithm.empty()) {
    const auto overrides = parse_overrides(words.algorithm);
    if (!overrides) return overrides.error().with_prefix("--algorithm: ");
  }
  return {};
}

// The name of the transport that was chosen; with "auto" only the engine's report tells.
std::string chosen_transport(const Engine& engine) {
  for (const std::string& line : engine.report()) {
    constexpr std::string_view label = "transport";
    if (!line.starts_with(label)) continue;
    const std::size_t from = line.find_first_not_of(" :=", label.size());
    if (from == std::string::npos) continue;
    return line.substr(from, line.find_first_of(" ,:;", from) - from);
  }
  return engine.config().transport;
}

// A line on stderr while a long run says nothing: every second on a terminal, every 15 s elsewhere.
class Progress {
 public:
  explicit Progress(bool wanted) : wanted_(wanted), pause_(::isatty(STDERR_FILENO) != 0 ? 1 : 15) {}
  void tell(std::size_t done, std::size_t of, std::size_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (!wanted_ || now - last_ < pause_) return;
    last_ = now;
    complain("perf", fmt::format("{} of {} sizes measured; now {}", done, of, size_text(bytes)));
  }

 private:
  bool wanted_;
  std::chrono::seconds pause_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

int could_not_run(int rank, const Status& status) {
  complain("perf", (rank > 0 ? fmt::format("rank {}: ", rank) : std::string()) + status.to_string());
  return exit_could_not_run;
}

Result<Config> configuration(const Words& words) {
  auto config = Config::from_environment();
  if (!config) return config;
  if (!words.transport.empty()) config->transport = words.transport;
  if (!words.algorithm.empty()) config->algorithm = words.algorithm;
  if (words.options.explain) config->explain = true;
  return config;
}

int measure(const Words& words) {
  const PerfOptions& options = words.options;
  auto config = configuration(words);
  if (!config) {
    const bool alone = config.error().message().starts_with("no rank");
    complain("perf", config.error().to_string() + (alone ? "; or let perf start ranks on this host with -n N" : ""));
    return exit_could_not_run;
  }
  const int rank = config->rank;
  Output out;
  if (rank == 0)
    if (Status status = out.open(words.output); !status) return could_not_run(rank, status);
  auto engine = Engine::create(std::move(*config));
  if (!engine) return could_not_run(rank, engine.error());
  Communicator world = (*engine)->world();
  if (options.root >= world.size()) {
    if (rank == 0)
      complain("perf", fmt::format("--root {}: ranks are 0 to {}", options.root, world.size() - 1));
    return exit_usage;
  }

  const bool both_ways = options.format == Format::table && !options.in_place;
  auto measuring = Measuring::prepare(**engine, options, both_ways);
  if (!measuring) return could_not_run(rank, measuring.error());
  const std::vector<int> nodes = world.nodes();
  JobFacts facts;
  facts.ranks = world.size();
  facts.nodes = nodes.empty() ? 1 : *std::max_element(nodes.begin(), nodes.end()) + 1;
  facts.transport = chosen_transport(**engine);
  facts.lanes = std::max(1, (*engine)->config().sockets_per_peer);
  facts.report = (*engine)->report();
  if (options.explain && rank == 0) {
    for (const std::string& line : facts.report) complain("perf", line);
    for (std::size_t bytes : options.sizes) {
      const Choice choice = measuring->explain(bytes);
      complain("perf", fmt::format("{}: {}: {}", size_text(bytes), choice.algorithm, choice.reason));
      for (const Choice::Candidate& one : choice.candidates)
        complain("perf", one.excluded.empty()
                             ? fmt::format("  {:<20} {:>12.1f} us predicted", one.algorithm, one.predicted_us)
                             : fmt::format("  {:<20} left out: {}", one.algorithm, one.excluded));
    }
  }
  PerfReport report(options, std::move(facts));
  if (rank == 0) out.write(report.header());
  Progress progress(rank == 0 && !words.no_progress);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    progress.tell(i, options.sizes.size(), options.sizes[i]);
    std::vector<Measurement> measurements;
    for (bool in_place : {false, true}) {
      if (!both_ways && in_place != options.in_place) continue;
      auto measurement = measuring->run(options.sizes[i], in_place);
      if (!measurement)
        return could_not_run(rank,
                             measurement.error().with_prefix(fmt::format("at {}: ", size_text(options.sizes[i]))));
      wrong += measurement->wrong;
      measurements.push_back(std::move(*measurement));
    }
    if (rank == 0) out.write(report.size_done(measurements));
  }
  if (rank == 0) {
    out.write(report.footer());
    if (Status status = out.finish(); !status) return could_not_run(rank, status);
  }
  if (Status status = (*engine)->leave(); !status) return could_not_run(rank, status);
  if (wrong == 0) return exit_fine;
  if (rank == 0) complain("perf", fmt::format("{} elements were wrong", wrong));
  return exit_wrong;
}

// Starts the ranks: this program again, without -n.
int start_ranks(const Words& words, const Session& session) {
  JobOptions job;
  job.ranks = words.ranks;
  job.nodes = words.nodes;
  job.name = "perf";
  std::string self(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0)
    return could_not_run(0, {ErrorCode::unavailable, "cannot find the program's own file (/proc/self/exe)"});
  self.resize(static_cast<std::size_t>(length));
  job.command = {self};
  for (std::size_t i = 0; i < session.arguments.size(); ++i) {
    const std::string& argument = session.arguments[i];
    if (argument == "-n" || argument == "--split-nodes") {
      ++i;
    } else if (!argument.starts_with("-n") && !argument.starts_with("--split-nodes=")) {
      job.command.push_back(argument);
    }
  }
  auto code = run_local_job(job, process_environment());
  if (!code) return could_not_run(0, code.error());
  return *code;
}

int run(Words& words, const Session& session) {
  Status status = understand(words);
  if (status.ok() && !session.command.empty()) status = wrong("nothing may follow --");
  if (status.ok() && words.nodes > 1 && words.ranks < words.nodes)
    status = wrong(fmt::format("--split-nodes {} needs -n with at least as many ranks", words.nodes));
  if (!status.ok()) {
    complain("perf", status.message() + "\nTry `fabring perf --help`.");
    return exit_usage;
  }
  if (words.ranks == 0) return measure(words);
  // Rank 0 writes it; found out here, no rank waits for one that could not.
  if (Output out; !(status = out.open(words.output)).ok()) return could_not_run(0, status);
  return start_ranks(words, session);
}

}  // namespace

void add_perf(CLI::App& app, Session& session) {
  auto words = std::make_shared<Words>();
  PerfOptions& options = words->options;
  CLI::App* command = app.add_subcommand("perf", "Measure and check a collective");
  command
      ->add_option("collective", words->collective,
                   "allreduce, reduce, reduce_scatter, all_gather, broadcast, gather, scatter, alltoall, barrier")
      ->required()->type_name("COLLECTIVE");
  command
      ->add_option("-n", words->ranks,
                   "Start N ranks on this host (also -np). Without it the environment says which rank this is: fabring "
                   "run, torchrun, srun, mpirun")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command->add_option("--split-nodes", words->nodes, "With -n: pretend that the ranks are on K nodes")
      ->check(CLI::Range(1, 4096))
      ->type_name("K");
  command->add_option("-b,--begin", words->first, "Smallest size (4)")->type_name("SIZE");
  command->add_option("-e,--end", words->last, "Largest size (256M)")->type_name("SIZE");
  command->add_option("-f,--factor", words->factor, "Each size is so many times the one before (2)")->type_name("F");
  command->add_option("--sizes", words->sizes, "These sizes instead: 4,1K,3M")->type_name("LIST");
  command
      ->add_option("-d,--datatype", words->type,
                   "float32 (the default), float64, float16, bfloat16, float8_e4m3, float8_e5m2, int8 ... uint64, bool")
      ->type_name("TYPE");
  command
      ->add_option("-o,--op", words->op,
                   "sum (the default), prod, min, max, avg, logical_and (land) ... bitwise_xor (bxor)")
      ->type_name("OP");
  command->add_option("-r,--root", options.root, "Root of reduce, broadcast, gather and scatter (0)")
      ->check(CLI::Range(0, 1 << 30))
      ->type_name("RANK");
  command->add_option("-w,--warmup", options.warm_up, "Calls before the clock runs (5)")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("W");
  command->add_option("-i,--iterations", options.calls, "Timed calls (20)")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("I");
  command
      ->add_option("--reps", options.repetitions, "Instead of -i: R repetitions of as many calls as fill --target-ms")
      ->check(CLI::Range(1, 10'000))
      ->type_name("R");
  command->add_option("--target-ms", words->target_ms, "Length of a repetition (100)")->type_name("T");
  command->add_option("--cap-s", words->cap_s, "With --reps: most seconds for a size (6)")->type_name("C");
  command->add_flag("--no-check", words->no_check, "Do not check the results");
  command->add_flag("--in-place", options.in_place, "Input and output are one buffer (the table measures both ways)");
  command->add_option("--transport", words->transport, "auto, or the first that works of a list: fabric,tcp,inproc")
      ->type_name("LIST");
  command->add_option("--algorithm", words->algorithm, "auto, one by name (ring), or rules: allreduce:64K-4M:circulant")
      ->type_name("RULES");
  command->add_option("--memory", words->memory, "host: ordinary memory")
      ->check(CLI::IsMember({"host"}))
      ->type_name("KIND");
  command
      ->add_option(
          "--format", options.format,
          "table (nccl-tests' columns), csv, json (an array, nothing else on stdout), osu, plain (bytes time_us "
          "algbw busbw)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Format>{{"table", Format::table},
                                                                        {"csv", Format::csv},
                                                                        {"json", Format::json},
                                                                        {"osu", Format::osu},
                                                                        {"plain", Format::plain}}))
      ->type_name("FORMAT");
  command->add_flag_callback(
      "--json", [words] { words->options.format = Format::json; }, "As --format json");
  command->add_option("--output", words->output, "Write to a file")->type_name("FILE");
  command->add_flag("--explain", options.explain, "Say on stderr why this transport and these algorithms");
  command->add_flag("--no-progress", words->no_progress, "No progress lines on stderr");
  command->footer(
      "Time is the slowest rank's total divided by the calls; GB/s are 1e9 bytes. A size is that of the vector or, where\n"
      "every rank has a block, of all blocks together. busbw is algbw x 2(n-1)/n for allreduce, x 1 for broadcast and\n"
      "reduce, x (n-1)/n for the others.\n"
      "Exit codes: 0 fine, 1 wrong results, 2 usage, 3 could not run.\n"
      "Example: fabring perf allreduce -n 4 -b 1K -e 64M --transport tcp");
  command->callback([words, &session] { session.exit_code = run(*words, session); });
}

}  // namespace fabring::tools
