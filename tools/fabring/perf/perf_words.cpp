#include "tools/fabring/perf/perf_words.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <string_view>

#include "collectives/choice/overrides.hpp"
#include "collectives/ownership.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/models.hpp"
#include "tools/fabring/operand_words.hpp"
#include "tools/fabring/output.hpp"

namespace fabring::tools {
namespace {

// What is measured, and in which formats that can be shown.
Status read_kind(const PerfWords& words, PerfOptions& options) {
  options.kind = words.guard ? PerfKind::guard : !options.model.empty() ? PerfKind::model : PerfKind::sizes;
  const char* option = options.kind == PerfKind::guard ? "--guard" : "--model";
  if (options.kind == PerfKind::sizes) {
    if (words.collective.empty()) return wrong_argument(which_collective() + "; or --model NAME, or --guard");
    const auto collective = read_collective(words.collective);
    if (!collective) return collective.error();
    options.collective = *collective;
    if (!options.plot.empty() && options.collective == Collective::barrier)
      return wrong_argument("--plot: a barrier has no bandwidth to draw");
    return {};
  }
  const bool allreduce = words.collective == name(Collective::allreduce);
  if (!words.collective.empty() && !(allreduce && options.kind == PerfKind::model))
    return wrong_argument(fmt::format("{}: leave out '{}'",
                                      words.guard ? "--guard goes with no collective of its own"
                                                  : "--model measures allreduce, by which gradients are summed",
                                      words.collective));
  if (words.guard && !options.model.empty())
    return wrong_argument("--guard and --model are two measurements: take one");
  if (!options.plot.empty()) return wrong_argument(fmt::format("--plot draws a collective over sizes, not {}", option));
  if (options.kind == PerfKind::guard)
    return options.format == Format::table || options.format == Format::json
               ? Status()
               : wrong_argument("--format: --guard has table and json");
  options.in_place = true;
  if (auto gradients = model_gradients(options.model); !gradients) return gradients.error().with_prefix("--model: ");
  auto bucket = parse_size(words.bucket);
  if (!bucket) return bucket.error().with_prefix("--bucket: ");
  if (*bucket == 0) return wrong_argument("--bucket 0: a call for each tensor is measured anyway; give a size");
  options.bucket = static_cast<std::size_t>(*bucket);
  return {};
}

// The table has both ways, and so have JSON and CSV beside a picture. Where one way is shown, a broadcast has a single
// buffer, as where it is used (MPI_Bcast, torch.distributed.broadcast), and so all peers are measured.
Status read_way(const PerfWords& words, PerfOptions& options) {
  if (options.kind == PerfKind::sizes && options.in_place && words.out_of_place)
    return wrong_argument("--in-place and --out-of-place: take one");
  const bool no_column = options.format == Format::plain || options.format == Format::osu;
  const bool one_way = options.format != Format::table && (no_column || options.plot.empty());
  if (options.kind == PerfKind::sizes && options.collective == Collective::broadcast && one_way)
    options.in_place = !words.out_of_place;
  return {};
}

Status read_sizes(const PerfWords& words, PerfOptions& options) {
  const bool guard = options.kind == PerfKind::guard;
  auto sizes = guard || !words.sizes.empty() ? parse_sizes(words.sizes.empty() ? "4,1K,16K,256K,4M" : words.sizes)
                                             : size_steps(words.first, words.last, words.factor);
  if (!sizes) return sizes.error().with_prefix(words.sizes.empty() ? "" : "--sizes: ");
  options.sizes = guard ? whole_elements(*sizes, options.type) : *sizes;
  options.sizes_are_named = !words.sizes.empty();
  if (options.kind == PerfKind::sizes && options.collective == Collective::barrier) options.sizes = {0};
  const bool nothing = std::ranges::all_of(options.sizes, [](std::size_t size) { return size == 0; });
  if (!options.plot.empty() && nothing)
    return wrong_argument("--plot: 0 bytes have no place on an axis of sizes and no bandwidth; give others");
  return {};
}

Status read_wire_type(const PerfWords& words, PerfOptions& options) {
  if (words.wire_type.empty()) return {};
  const auto setting = read_as_setting("FABRING_WIRE_TYPE", "--wire-type", words.wire_type);
  if (!setting) return setting.error();
  options.wire_type = setting->wire_type.value_or(DataType::float32);  // off, whatever the environment says
  if (!setting->wire_type) return {};
  if (options.kind == PerfKind::guard)
    return wrong_argument("--wire-type: --guard compares collectives as they are; leave it out");
  const Collective collective = options.kind == PerfKind::sizes ? options.collective : Collective::allreduce;
  if (!wire_type_of(collective, options, std::nullopt))
    return wrong_argument(
        "--wire-type is for allreduce, reduce and reduce_scatter of float32 (-d) by sum, avg or premul_sum (-o)");
  return {};
}

// What a collective has no use for (a root, an operation, sizes) is taken with a warning: a script that measures them
// all gives all the same, and the rows say "none".
void find_without_effect(const PerfWords& words, PerfOptions& options) {
  if (options.kind != PerfKind::sizes) return;
  const auto tell = [&](std::string_view option, std::string_view why) {
    options.without_effect.push_back(
        fmt::format("{} does nothing: {} {}; leave it out", option, name(options.collective), why));
  };
  if (options.root != 0 && !has_root(options.collective)) tell("-r", "has no root");
  if (options.op != ReduceOp::sum && !reduces(options.collective)) tell("-o", "reduces nothing");
  if (options.collective != Collective::barrier) return;
  if (options.type != DataType::float32) tell("-d", "has no elements");
  for (const char* const option : {"--sizes", "-b", "-e", "-f"})
    if (words.command->count(option) > 0) tell(option, "has no sizes");
}

// Options that a kind of measurement has no use for are refused: what they asked for would be believed of its figures.
Status refuse_unused(const PerfWords& words) {
  const PerfKind kind = words.options.kind;
  struct Unused {
    PerfKind kind;
    std::initializer_list<const char*> options;
    const char* why;
  };
  static const Unused all[] = {
      {PerfKind::guard, {"-b", "-e", "-f"}, "--sizes names the sizes of --guard"},
      {PerfKind::guard, {"-o"}, "--guard compares sums"},
      {PerfKind::guard, {"-r"}, "the root of --guard is rank 0"},
      {PerfKind::guard, {"-i"}, "--reps and --target-ms say how long --guard measures"},
      {PerfKind::guard, {"--in-place", "--out-of-place"}, "--guard has input and output of its own"},
      {PerfKind::guard, {"--no-check"}, "--guard compares times and checks no results"},
      {PerfKind::model, {"-b", "-e", "-f", "--sizes"}, "the sizes of --model are those of its gradients"},
      {PerfKind::model, {"-r"}, "an allreduce, which --model measures, has no root"},
      {PerfKind::model, {"--out-of-place"}, "--model reduces gradients in place"},
  };
  for (const Unused& each : all)
    for (const char* const option : each.options)
      if (each.kind == kind && words.command->count(option) > 0)
        return wrong_argument(fmt::format("{} would do nothing: {}; leave it out", option, each.why));
  if (!words.sizes.empty())
    for (const char* const option : {"-b", "-e", "-f"})
      if (words.command->count(option) > 0)
        return wrong_argument(
            fmt::format("{} would do nothing: --sizes names the sizes; leave out one of them", option));
  if (words.options.repetitions > 0 && words.command->count("-i") > 0)
    return wrong_argument(
        "-i would do nothing: --target-ms says how long a repetition of --reps is; leave out one of them");
  if (words.command->count("--json") > 0 && words.command->count("--format") > 0 &&
      words.command->get_option("--format")->as<std::string>() != "json")
    return wrong_argument("--json is --format json: take one");
  for (const char* const option : {"--target-ms", "--cap-s"})
    if (kind != PerfKind::guard && words.options.repetitions == 0 && words.command->count(option) > 0)
      return wrong_argument(fmt::format("{} is for repetitions: give --reps, or leave it out", option));
  return {};
}

Status read_type_and_operation(const PerfWords& words, PerfOptions& options) {
  const auto type = read_type(words.type);
  if (!type) return type.error();
  const auto op = read_operation(words.op);
  if (!op) return op.error();
  if (!supports(*type, *op))
    return wrong_argument(fmt::format("-o {}: {} has no such operation", name(*op), name(*type)));
  if (*op == ReduceOp::user)
    return wrong_argument("-o user: a function of a program's own cannot be measured from here");
  options.type = *type;
  options.op = *op;
  return {};
}

/// Without a unit it is a number of `unit`.
Status read_time(const std::string& text, std::string_view unit, std::chrono::milliseconds& into) {
  if (text.empty()) return {};
  const bool bare = text.find_first_not_of("0123456789.") == std::string::npos;
  auto duration = parse_duration(bare ? text + std::string(unit) : text);
  if (!duration)
    return wrong_argument(fmt::format("'{}' is not a time: a number of {}, or one with a unit (500ms, 2s)", text,
                                      unit == "ms" ? "milliseconds" : "seconds"));
  into = *duration;
  return {};
}

Status read_times(const PerfWords& words, PerfOptions& options) {
  FABRING_TRY(read_time(words.target_ms, "ms", options.target).with_prefix("--target-ms: "));
  FABRING_TRY(read_time(words.cap_s, "s", options.cap).with_prefix("--cap-s: "));
  if (!words.timeout.empty()) options.timeout = *parse_duration(words.timeout);
  if (options.kind == PerfKind::guard && options.repetitions == 0) options.repetitions = 5;
  if (options.kind == PerfKind::guard && words.target_ms.empty()) options.target = std::chrono::milliseconds(20);
  return {};
}

Status read_memory(const PerfWords& words, PerfOptions& options) {
  options.device = words.memory == "cuda";
  options.mapped = words.memory == "mapped";
  if (options.device && options.kind == PerfKind::guard)
    return wrong_argument("--memory cuda goes with a collective or --model, not with --guard");
  if (options.device && options.offset > 0)
    return wrong_argument("--offset would do nothing: it is of buffers of the host; leave it out, or --memory cuda");
  if (options.offset > 0 && static_cast<std::size_t>(options.offset) < size_of(options.type))
    return wrong_argument(
        fmt::format("--offset {0} would do nothing: whole elements of {1} have {2} B; give {2} or more, "
                    "or -d int8",
                    options.offset, name(options.type), size_of(options.type)));
  return {};
}

Status check_files(const PerfOptions& options) {
  FABRING_TRY(check_picture("--plot", options.plot, options.output));
  if (!options.plot.empty() && options.plot == options.output)
    return wrong_argument("--output and --plot name the same file");
  return {};
}

/// What the settings would refuse is refused here, before anything is started.
Status check_transport(const PerfOptions& options) {
  if (options.transport.empty()) return {};
  const auto setting = read_as_setting("FABRING_TRANSPORT", "--transport", options.transport);
  if (!setting) return setting.error();
  const auto names = parse_list(options.transport);
  if (names && names->size() > 1 && std::ranges::find(*names, "inproc") != names->end())
    return wrong_argument(fmt::format(
        "--transport {}: inproc goes alone, as its ranks are threads of one process; leave out it or the others",
        options.transport));
  return {};
}

Status check_algorithm(const PerfOptions& options) {
  if (options.algorithm.empty()) return {};
  const auto overrides = parse_overrides(options.algorithm);
  if (!overrides) return overrides.error().with_prefix("--algorithm: ");
  const auto matters = [&](const Override& rule) {
    const bool about_it = !rule.collective || *rule.collective == options.collective;
    return about_it && (!rule.algorithm || rule.any_direct || rule.algorithm_for(options.collective));
  };
  // --model measures allreduce, which is the collective then too.
  if (options.kind != PerfKind::guard && std::none_of(overrides->begin(), overrides->end(), matters))
    return no_such_algorithm(options.algorithm, options.collective);
  return {};
}

Status check_plan_option(const PerfOptions& options) {
  if (options.plan.empty()) return {};
  if (options.kind != PerfKind::sizes)
    return wrong_argument("--plan goes with the collective that its plans are of, not with --model or --guard");
  if (!options.algorithm.empty()) return wrong_argument("--plan and --algorithm: take one");
  if (options.device)
    return wrong_argument("--plan: plans of a file run on memory of the host; leave out --memory cuda");
  return {};
}

}  // namespace

Status understand(PerfWords& words) {
  PerfOptions& options = words.options;
  FABRING_TRY(read_kind(words, options));
  FABRING_TRY(read_type_and_operation(words, options));
  FABRING_TRY(read_wire_type(words, options));
  FABRING_TRY(read_sizes(words, options));
  FABRING_TRY(read_way(words, options));
  FABRING_TRY(read_times(words, options));
  FABRING_TRY(read_memory(words, options));
  FABRING_TRY(check_files(options));
  options.check = !words.no_check;
  options.progress = !words.no_progress;
  FABRING_TRY(check_transport(options));
  FABRING_TRY(check_algorithm(options));
  FABRING_TRY(check_plan_option(options));
  FABRING_TRY(refuse_unused(words));
  find_without_effect(words, options);
  return {};
}

}  // namespace fabring::tools
