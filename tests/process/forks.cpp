#include "forks.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "events.hpp"

namespace rank_program {
namespace {

using fabring::Communicator;
using fabring::Engine;
using fabring::ErrorCode;
using fabring::Operation;
using fabring::Status;

constexpr auto float32 = fabring::DataType::float32;
constexpr std::size_t held_elements = std::size_t{1} << 18;

/// What a program has at hand when it forks.
struct Held {
  Engine& engine;
  Communicator world, part;
  fabring::Prepared prepared;
  fabring::Work over, under_way;
  fabring::MappedBuffer mapped;
  fabring::MappedResource resource;
  std::vector<float> values = std::vector<float>(held_elements);
  float got = 0;

  explicit Held(Engine& of) : engine(of), world(of.world()), resource(of) {}
};

template <class T>
Status error_of(const fabring::Result<T>& result) {
  return result ? Status() : result.error();
}

/// Every call with an answer of its own.
std::vector<std::pair<const char*, Status>> all_calls(Held& held) {
  Communicator& world = held.world;
  const Operation sum =
      Operation::allreduce(held.values.data(), held.values.data(), 1, float32, fabring::ReduceOp::sum);
  const std::vector<fabring::Rank> self{world.rank()};
  return {{"run", world.run(sum)},
          {"run of a part", held.part.run(Operation::barrier())},
          {"run_group", world.run_group(std::vector<Operation>{sum})},
          {"start", world.start(sum).wait()},
          {"prepare", error_of(world.prepare(sum))},
          {"prepared run", held.prepared.run()},
          {"prepared start", held.prepared.start().wait()},
          {"wait for what is over", held.over.wait()},
          {"wait", held.under_way.wait()},
          {"wait_for", held.under_way.wait_for(std::chrono::nanoseconds(0))},
          {"status", held.under_way.status()},
          {"split", error_of(world.split(0, 0))},
          {"split_by_node", error_of(world.split_by_node())},
          {"duplicate", error_of(world.duplicate())},
          {"subgroup", error_of(world.subgroup(self, 1))},
          {"shrink", error_of(world.shrink())},
          {"with_plans", error_of(world.with_plans(""))},
          {"explain", world.explain(sum).status},
          {"health", world.health()},
          {"allocate", error_of(held.engine.allocate(1))}};
}

Status use_an_engine_of_its_own() {
  fabring::Config config;
  config.rank = 0;
  config.world_size = 1;
  auto engine = Engine::create(std::move(config));
  return engine ? (*engine)->world().barrier() : engine.error();
}

/// What is wrong in the child; empty: nothing.
std::string wrong_in_child(Held& held) {
  const std::string words = "child of fork() of rank " + std::to_string(held.world.rank()) + "'s";
  for (const auto& [call, status] : all_calls(held))
    if (status.code() != ErrorCode::invalid_argument || status.message().find(words) == std::string::npos)
      return std::string(call) + ": " + status.to_string();
  if (!held.under_way.done()) return "done";
  bool notified = false;
  held.under_way.notify([](void* called) { *static_cast<bool*>(called) = true; }, &notified);
  if (!notified) return "notify";
  if (held.engine.traffic().messages_sent != 0) return "traffic";
  held.world.abort("by a child");
  try {
    (void)held.resource.allocate(1);
    return "allocate of a resource";
  } catch (const std::bad_alloc&) {
  }
  if (const Status left = held.engine.leave(); !left.ok()) return "leave: " + left.to_string();
  if (const Status own = use_an_engine_of_its_own(); !own.ok()) return "an engine of its own: " + own.to_string();
  return {};
}

Exit end_of_child(Held& held) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string wrong = wrong_in_child(held);
  if (wrong.empty()) return Exit::fine;
  Event("wrong").text("in a child", wrong);
  return Exit::wrong;
}

Status take(Held& held) {
  const auto want = [](auto made, auto& into) {
    if (!made) return made.error();
    into = std::move(*made);
    return Status();
  };
  if (Status done = want(held.world.duplicate(), held.part); !done.ok()) return done;
  if (Status done = want(held.engine.allocate(held_elements * sizeof(float)), held.mapped); !done.ok()) return done;
  const Operation sum =
      Operation::allreduce(held.values.data(), held.values.data(), held_elements, float32, fabring::ReduceOp::max);
  if (Status done = want(held.world.prepare(sum), held.prepared); !done.ok()) return done;
  held.over = held.world.start(sum);
  if (Status done = held.over.wait(); !done.ok()) return done;
  std::ranges::fill(held.mapped.as<float>(), 1.0F);
  held.under_way = held.world.start(Operation::recv(&held.got, 1, float32, fabring::any_source));
  return held.world.barrier();
}

/// The parent's: what was under way ends well, and what is called is right.
Status go_on(Held& held, bool& right) {
  const float mine = 7;
  if (Status sent = held.world.send(&mine, 1, float32, (held.world.rank() + 1) % held.world.size()); !sent.ok())
    return sent;
  if (Status received = held.under_way.wait(); !received.ok()) return received;
  const auto ones = held.mapped.as<float>();
  for (Communicator* all : {&held.world, &held.part}) {
    const Status done = all->allreduce(ones.data(), held.values.data(), held_elements, float32, fabring::ReduceOp::sum);
    if (!done.ok()) return done;
    right =
        right && std::ranges::all_of(held.values, [&](float sum) { return sum == static_cast<float>(all->size()); });
  }
  right = right && held.got == mine;
  return held.prepared.run();
}

}  // namespace

Exit run_forks() {
  const auto failed = [](const Status& why) {
    Event("error").text("where", "forks").error(why);
    return Exit::failed;
  };
  auto made = Engine::from_environment();
  if (!made) return failed(made.error());
  static const std::unique_ptr<Engine> engine = std::move(*made);  // ends as the process does, and as its children do
  Held held(*engine);
  if (const Status taken = take(held); !taken.ok()) return failed(taken);
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) return end_of_child(held);
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return Exit::usage;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  Event("forked").number("status", status).number("ms", static_cast<std::int64_t>(took.count()));
  bool right = true;
  if (const Status gone_on = go_on(held, right); !gone_on.ok()) return failed(gone_on);
  return right ? Exit::fine : Exit::wrong;
}

}  // namespace rank_program
