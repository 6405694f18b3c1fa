#include "tools/fabring/perf/perf_command_line.hpp"

#include <CLI/CLI.hpp>

#include "tools/fabring/option_checks.hpp"

namespace fabring::tools {
namespace {

void add_kind_options(CLI::App& command, PerfWords& words) {
  command
      .add_option("collective", words.collective,
                  "allreduce, reduce, reduce_scatter, all_gather, broadcast, gather, scatter, alltoall, barrier")
      ->type_name("COLLECTIVE");
  CLI::Option* model =
      command
          .add_option(
              "--model", words.options.model,
              "Instead of a collective: the gradients of resnet50, vgg16, bert-base or gpt2, or 1000x256 (so many "
              "tensors of so many elements), step after step")
          ->type_name("NAME");
  command
      .add_option("--bucket", words.bucket, "With --model: gradients are fused into buckets of at least so much (25M)")
      ->needs(model)
      ->type_name("SIZE");
  CLI::Option* guard = command.add_flag("--guard", words.guard,
                                        "Instead: is a collective slower than what others could be composed to?");
  command
      .add_option("--margin", words.options.margin, "With --guard: how many times as long a collective may take (1.25)")
      ->needs(guard)
      ->check(between(1.0, 1000.0))
      ->type_name("M");
}

void add_rank_options(CLI::App& command, PerfWords& words) {
  command
      .add_option("-n", words.ranks,
                  "Start N ranks on this host (also -np). Without it the environment says which rank this is: fabring "
                  "run, torchrun, srun, mpirun")
      ->check(between(1, 4096))
      ->type_name("N");
  command.add_option("--split-nodes", words.nodes, "With -n: pretend that the ranks are on K nodes")
      ->check(between(1, 4096))
      ->type_name("K");
}

void add_size_options(CLI::App& command, PerfWords& words) {
  command.add_option("-b,--begin", words.first, "Smallest size (4)")->type_name("SIZE");
  command.add_option("-e,--end", words.last, "Largest size (256M)")->type_name("SIZE");
  command.add_option("-f,--factor", words.factor, "Each size is so many times the one before (2)")
      ->check(above(1))
      ->type_name("F");
  command.add_option("--sizes", words.sizes, "These sizes instead: 4,1K,3M")->type_name("LIST");
  command
      .add_option("-d,--datatype,--dtype", words.type,
                  "float32 (the default), float64, float16, bfloat16, float8_e4m3, float8_e5m2, int8 ... uint64, bool")
      ->type_name("TYPE");
  command
      .add_option("-o,--op", words.op,
                  "sum (the default), prod, min, max, avg, logical_and (land) ... bitwise_xor (bxor)")
      ->type_name("OP");
  command
      .add_option("--wire-type", words.wire_type,
                  "bfloat16 or float16: as what float32 travels; results are checked against the bound of the error "
                  "(off: as float32, whatever FABRING_WIRE_TYPE says)")
      ->type_name("TYPE");
  command.add_option("-r,--root", words.options.root, "Root of reduce, broadcast, gather and scatter (0)")
      ->check(between(0, 1 << 30))
      ->type_name("RANK");
}

void add_timing_options(CLI::App& command, PerfWords& words) {
  command.add_option("-w,--warmup", words.options.warm_up, "Calls before the clock runs (5)")
      ->check(between(0, 1'000'000))
      ->type_name("W");
  command.add_option("-i,--iterations", words.options.calls, "Timed calls (20)")
      ->check(between(1, 1'000'000))
      ->type_name("I");
  command
      .add_option("--reps", words.options.repetitions,
                  "Instead of -i: R repetitions of as many calls as fill --target-ms")
      ->check(between(1, 10'000))
      ->type_name("R");
  command.add_option("--target-ms", words.target_ms, "With --reps: length of a repetition (100)")->type_name("T");
  command
      .add_option("--cap-s", words.cap_s,
                  "With --reps: most seconds of them for a size, by fewer where calls are long (6)")
      ->type_name("C");
}

void add_buffer_options(CLI::App& command, PerfWords& words) {
  command.add_flag("--no-check", words.no_check, "Do not check the results");
  command.add_flag("--in-place", words.options.in_place,
                   "Input and output are one buffer, as always of a broadcast (the table measures both ways)");
  command.add_flag("--out-of-place", words.out_of_place,
                   "Input and output are two buffers, also of a broadcast, whose root copies one to the other");
}

void add_path_options(CLI::App& command, PerfWords& words) {
  command
      .add_option(
          "--transport", words.options.transport,
          "auto, or what may be used: shm (one host), and the first network that works of fabric,tcp; with -n also "
          "inproc alone: the ranks are threads of this process")
      ->type_name("LIST");
  command
      .add_option("--algorithm", words.options.algorithm,
                  "auto, one by name (ring), or rules: allreduce:64K-4M:circulant")
      ->type_name("RULES");
  command
      .add_option("--plan", words.options.plan,
                  "Run the plans of this file (fabring plan COLLECTIVE -n N --json), once they are proved; -n as in it")
      ->type_name("FILE");
}

void add_memory_options(CLI::App& command, PerfWords& words) {
  command
      .add_option(
          "--memory", words.memory,
          "host: ordinary memory (the default); mapped: memory that the ranks of a host read and write directly "
          "(fabring_mem_alloc); cuda: memory of a GPU, for each rank the next one of its host")
      ->check(one_of({"host", "mapped", "cuda"}))
      ->type_name("KIND");
  command
      .add_option("--offset", words.options.offset,
                  "Begin buffers of the host B bytes into a page, as an application's may (0); rounded down to whole "
                  "elements")
      ->check(between(0, 4095))
      ->type_name("B");
}

void add_output_options(CLI::App& command, PerfWords& words) {
  add_choice<Format>(command, "--format", words.options.format,
                     {{"table", Format::table},
                      {"csv", Format::csv},
                      {"json", Format::json},
                      {"osu", Format::osu},
                      {"plain", Format::plain}},
                     "table (nccl-tests' columns), csv, json (an array, nothing else on stdout), osu, plain (bytes "
                     "time_us algbw busbw)")
      ->type_name("FORMAT");
  command.add_flag_callback(
      "--json", [&words] { words.options.format = Format::json; }, "As --format json");
  command.add_option("--output", words.options.output, "Write to a file")->type_name("FILE");
  command.add_option("--plot", words.options.plot, "Draw busbw over the size, out of place and in place")
      ->type_name("F.svg");
  command.add_flag(
      "--explain", words.options.explain,
      "Say on stderr why this transport and these algorithms, and what was predicted beside what was measured");
  command
      .add_option("--timeout", words.timeout,
                  "Give up ranks that do not meet, or a call, after so long (FABRING_TIMEOUT)")
      ->check(a_duration())
      ->type_name("TIME");
  command.add_flag("--no-progress", words.no_progress, "No progress lines on stderr");
}

}  // namespace

void add_perf_options(CLI::App& command, PerfWords& words) {
  add_kind_options(command, words);
  add_rank_options(command, words);
  add_size_options(command, words);
  add_timing_options(command, words);
  add_buffer_options(command, words);
  add_path_options(command, words);
  add_memory_options(command, words);
  add_output_options(command, words);
}

}  // namespace fabring::tools
