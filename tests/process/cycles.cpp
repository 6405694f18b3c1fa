#include "cycles.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checked_vector.hpp"
#include "events.hpp"

namespace rank_program {
namespace {

using fabring::Communicator;
using fabring::Engine;
using fabring::ErrorCode;
using fabring::Status;

constexpr auto type = fabring::DataType::float32;
constexpr auto op = fabring::ReduceOp::sum;

std::int64_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return std::distance(begin(all), end(all));
}

std::int64_t mappings() {
  std::ifstream file("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

void say_what_is_held(std::int64_t cycle) {
  Event("cycle")
      .number("n", cycle)
      .number("descriptors", entries("/proc/self/fd"))
      .number("threads", entries("/proc/self/task"))
      .number("mappings", mappings());
}

Status use(Engine& engine, std::int64_t cycle, std::size_t bytes, bool& right) {
  Communicator world = engine.world();
  auto part = cycle % 2 == 0 ? world.duplicate("part") : world.split(0, world.rank(), "part");
  if (!part) return part.error();
  CheckedVector vector(type, op, cycle % 4 == 0 ? &engine : nullptr);
  for (Communicator* communicator : {&world, &*part}) {
    vector.fill(bytes / sizeof(float), communicator->rank(), static_cast<std::uint64_t>(cycle), true);
    const Status done = communicator->allreduce_async(vector.in(), vector.out(), vector.count(), type, op).wait();
    if (!done.ok()) return done;
    right = right && !vector.first_wrong(communicator->size());
  }
  return {};
}

// One rank aborts; the others are in an operation that it never calls.
Status abort_in_the_middle(Engine& engine, std::size_t bytes) {
  Communicator world = engine.world();
  if (world.rank() == 0) {
    world.abort("a cycle's end");
    return {};
  }
  std::vector<float> values(bytes / sizeof(float));
  const Status done = world.allreduce(values.data(), values.data(), values.size(), type, op);
  if (done.code() == ErrorCode::aborted) return {};
  return done.ok() ? Status(ErrorCode::internal, "an operation that a rank never called has ended well") : done;
}

Status one(std::int64_t cycle, std::size_t bytes, bool& right) {
  auto config = fabring::Config::from_environment();
  if (!config) return config.error();
  config->job_id += "." + std::to_string(cycle);
  auto engine = Engine::create(std::move(*config));
  if (!engine) return engine.error();
  if (Status done = use(**engine, cycle, bytes, right); !done.ok()) return done;
  if (cycle % 3 == 0) return (*engine)->leave();
  return cycle % 3 == 1 ? Status() : abort_in_the_middle(**engine, bytes);
}

}  // namespace

Exit run_cycles(const Words& words) {
  const std::int64_t count = words.number("count", 40);
  const auto bytes = static_cast<std::size_t>(words.number("size", 65536));
  for (std::int64_t cycle = 1; cycle <= count; ++cycle) {
    bool right = true;
    if (const Status done = one(cycle, bytes, right); !done.ok()) {
      Event("error").text("where", "cycle " + std::to_string(cycle)).error(done);
      return Exit::failed;
    }
    if (!right) {
      Event("wrong").number("cycle", cycle);
      return Exit::wrong;
    }
    if (cycle * 10 / count != (cycle - 1) * 10 / count) say_what_is_held(cycle);
  }
  return Exit::fine;
}

}  // namespace rank_program
