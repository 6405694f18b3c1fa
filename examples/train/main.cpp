// fabring-train: trains a small classifier on Fashion-MNIST, data-parallel over all ranks of the job.
//
//   fabring run -n 4 -- fabring-train --epochs 3 --verify
//
// Exit codes: 0 done; 1 the ranks' weights differ, or, of rank 0, --verify found them too far from training alone;
// 2 usage; 3 no data, or Fabring reported an error.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "fabring/fabring.hpp"
#include "trainer.hpp"

namespace {

using fabring::DataType;
using fabring::ReduceOp;
using fabring::Result;
using fabring::Status;
using train::Dataset;
using train::EpochReport;
using train::Options;
using train::Trainer;

constexpr const char* usage =
    "usage: fabring-train [--epochs N] [--batch N] [--learning-rate X] [--seed N] [--images N] [--data DIR]\n"
    "                     [--single] [--verify]\n"
    "  --batch N   images per step of all ranks together (512)\n"
    "  --images N  use only the first N training images (0: all)\n"
    "  --single    train in this process alone, without Fabring\n"
    "  --verify    rank 0 also trains alone and compares the weights\n";

// Training alone sums a batch's gradients in another order, so that weights differ by rounding: some 5e-6 of their root
// mean square after three epochs. Above this it is something else.
constexpr double largest_deviation = 1e-4;

template <class T>
bool parse(const char* text, T smallest, T largest, T& value) {
  if (text == nullptr) return false;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == '\0' && value >= smallest && value <= largest;
}

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const char* const option = argv[i];
    const std::string_view name = option;
    const auto value = [&] { return i + 1 < argc ? argv[++i] : nullptr; };
    bool good = true;
    if (name == "--epochs") {
      good = parse(value(), 1, 1000, options.epochs);
    } else if (name == "--batch") {
      good = parse(value(), 1, 1'000'000, options.batch);
    } else if (name == "--learning-rate") {
      good = parse(value(), 1e-9f, 10.0f, options.learning_rate);
    } else if (name == "--seed") {
      good = parse(value(), 0, 1'000'000'000, options.seed);
    } else if (name == "--images") {
      good = parse(value(), 0, 1'000'000, options.images);
    } else if (name == "--data" && i + 1 < argc) {
      options.directory = argv[++i];
    } else if (name == "--single") {
      options.single = true;
    } else if (name == "--verify") {
      options.verify = true;
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "fabring-train: cannot use %s %s\n%s", option, argv[i] == option ? "" : argv[i], usage);
      return std::nullopt;
    }
  }
  return options;
}

std::uint64_t hash(std::span<const float> weights) {  // FNV-1a, a 32-bit word at a time
  std::uint64_t value = 0xcbf29ce484222325;
  for (const float weight : weights) value = (value ^ std::bit_cast<std::uint32_t>(weight)) * 0x100000001b3;
  return value;
}

Status train_all(Trainer& trainer, const Options& options, bool print) {
  if (print) std::printf("epoch    loss  accuracy  images/s  communicating  overlapped  exposed wait\n");
  double seconds = 0, accuracy = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    Result<EpochReport> report = trainer.run_epoch();
    if (!report) return report.error();
    seconds += report->seconds;
    accuracy = report->accuracy;
    if (!print) continue;
    const auto percent = [&](double part) { return 100 * part / report->seconds; };
    std::printf("%5d  %6.4f  %7.2f%%  %8.0f  %12.1f%%  %9.1f%%  %11.1f%%\n", epoch, report->loss,
                100 * report->accuracy, report->images / report->seconds, percent(report->communicating),
                percent(report->communicating - report->exposed), percent(report->exposed));
    std::fflush(stdout);
  }
  if (print)
    std::printf("trained %d epochs in %.1f s: test accuracy %.2f%%\n", options.epochs, seconds, 100 * accuracy);
  return {};
}

// The largest difference between two sets of weights, relative to their root mean square.
double deviation(std::span<const float> weights, std::span<const float> reference) {
  double largest = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(weights[i]) - static_cast<double>(reference[i]));
    if (!(difference <= largest)) largest = difference;  // keeps a NaN
    squares += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return largest / std::sqrt(squares / static_cast<double>(weights.size()));
}

// True when all ranks hold the same bits.
Result<bool> are_identical(Trainer& trainer, fabring::Communicator world) {
  const std::uint64_t mine = hash(trainer.parameters());
  std::uint64_t lowest = mine, highest = mine;
  FABRING_TRY(world.allreduce(&lowest, &lowest, 1, DataType::uint64, ReduceOp::min));
  FABRING_TRY(world.allreduce(&highest, &highest, 1, DataType::uint64, ReduceOp::max));
  const bool identical = lowest == highest;
  if (world.rank() == 0)
    std::printf("weights: %s on all %d ranks (hash %016llx)\n", identical ? "bit-identical" : "DIFFERENT", world.size(),
                static_cast<unsigned long long>(mine));
  return identical;
}

// True when the weights are those of training alone but for rounding.
Result<bool> are_as_alone(Trainer& trainer, const Dataset& training, const Dataset& test, const Options& options) {
  Trainer alone(training, test, options, fabring::Communicator());
  FABRING_TRY(train_all(alone, options, false));
  const double found = deviation(trainer.parameters(), alone.parameters());
  const bool good = found <= largest_deviation;
  std::printf(
      "verify: largest difference from training alone is %.2e of the weights' root mean square (limit %.0e): %s\n",
      found, largest_deviation, good ? "ok" : "FAILED");
  return good;
}

Result<bool> run(const Options& options) {
  Result<Dataset> training = train::load(options.directory, "train", options.images);
  if (!training) return training.error();
  Result<Dataset> test = train::load(options.directory, "t10k", 0);
  if (!test) return test.error();

  std::unique_ptr<fabring::Engine> engine;
  fabring::Communicator world;
  if (!options.single) {
    Result<std::unique_ptr<fabring::Engine>> met = fabring::Engine::from_environment();
    if (!met) return met.error();
    engine = std::move(*met);
    world = engine->world();
  }
  const bool print = !world || world.rank() == 0;
  Trainer trainer(*training, *test, options, world);
  if (print) {
    std::printf("Fashion-MNIST, %d + %d images; %zu weights; batch %d over %d rank%s\n", training->size(), test->size(),
                trainer.parameters().size(), options.batch, world ? world.size() : 1,
                world && world.size() > 1 ? "s" : "");
  }
  FABRING_TRY(train_all(trainer, options, print));
  if (!world) return true;
  const bool verifies = options.verify && world.rank() == 0;
  const Result<bool> identical = are_identical(trainer, world);
  if (!identical) return identical.error();
  FABRING_TRY(engine->leave());  // nobody need wait while rank 0 trains alone
  if (!verifies) return *identical;
  const Result<bool> as_alone = are_as_alone(trainer, *training, *test, options);
  if (!as_alone) return as_alone.error();
  return *identical && *as_alone;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) return 2;
  const Result<bool> good = run(*options);
  if (!good) {
    std::fprintf(stderr, "fabring-train: %s\n", good.error().to_string().c_str());
    return 3;
  }
  return *good ? 0 : 1;
}
