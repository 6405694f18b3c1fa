#pragma once
// What `fabring perf` was asked to do.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring::tools {

enum class Format : std::uint8_t { table, csv, json, osu, plain };

/// What is measured: a collective over sizes; the gradients of a model; collectives against what they are made of.
enum class PerfKind : std::uint8_t { sizes, model, guard };

struct PerfOptions {
  PerfKind kind = PerfKind::sizes;
  Collective collective = Collective::allreduce;
  std::vector<std::size_t> sizes;  ///< bytes, as they were asked for; of the guard whole elements
  bool sizes_are_named = false;    ///< each of them, not the first and the last
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  int warm_up = 5;
  int calls = 20;
  int repetitions = 0;  ///< 0: one measurement of `calls` calls; else so many of about `target`
  std::chrono::milliseconds target{100};
  std::chrono::milliseconds cap{6'000};              ///< with repetitions: most time of them for a size
  std::optional<std::chrono::milliseconds> timeout;  ///< of a call, and of the ranks to meet; none: as the settings say
  bool check = true;
  bool in_place = false;
  bool explain = false;
  bool device = false;  ///< buffers in memory of a GPU
  bool mapped = false;  ///< buffers that all ranks of the host have mapped
  int offset = 0;       ///< bytes into a page at which buffers of the host begin
  Format format = Format::table;
  std::string model;                  ///< whose gradients
  std::size_t bucket = 25ULL << 20;   ///< bytes of gradients that go together, at least
  double margin = 1.25;               ///< guard: how many times as long a collective may take as its composition
  std::string transport, algorithm;   ///< empty: as the settings say
  std::optional<DataType> wire_type;  ///< none: as the settings say
  std::string output, plot;           ///< files; empty: stdout, no picture
  std::string plan;                   ///< file of the plans to run; empty: what the engine chooses
  bool progress = true;
  std::vector<std::string> without_effect;  ///< options that the collective has no use for, a sentence each
};

/// Where buffers are, in the words of --memory.
std::string_view memory_word(const PerfOptions& options);

/// As what this would travel, if not as its type: what the options say, else the setting.
std::optional<DataType> wire_type_of(Collective collective, const PerfOptions& options,
                                     std::optional<DataType> setting);

/// "4,1K,3M" as bytes. Errors: what is malformed.
Result<std::vector<std::size_t>> parse_sizes(const std::string& text);

/// From `first` to `last`, each `factor` times the one before.
Result<std::vector<std::size_t>> size_steps(const std::string& first, const std::string& last, double factor);

/// Rounds down to whole elements; a size below one element becomes one element, unless it is 0. Removes repeats.
std::vector<std::size_t> whole_elements(const std::vector<std::size_t>& sizes, DataType type);

}  // namespace fabring::tools
