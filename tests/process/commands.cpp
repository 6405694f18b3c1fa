#include "commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <sstream>

#include "calls.hpp"
#include "checked_vector.hpp"
#include "events.hpp"
#include "exchange_commands.hpp"
#include "rough_commands.hpp"
#include "worker.hpp"

namespace rank_program {
namespace {

using fabring::Communicator;
using fabring::Status;

/// The same sequence of sizes on every rank.
class Sizes {
 public:
  Sizes(std::vector<std::size_t> choices, std::uint64_t seed) : choices_(std::move(choices)), state_(seed) {}
  std::size_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    return choices_[(state_ >> 33) % choices_.size()];
  }

 private:
  std::vector<std::size_t> choices_;
  std::uint64_t state_;
};

Exit report(std::string_view where, const Status& status) {
  Event("error").text("where", where).error(status);
  return Exit::failed;
}

Exit report_wrong(const CheckedVector& vector, std::size_t index, std::uint64_t step) {
  Event("wrong")
      .number("index", static_cast<std::int64_t>(index))
      .number("count", static_cast<std::int64_t>(vector.count()))
      .number("step", static_cast<std::int64_t>(step));
  return Exit::wrong;
}

}  // namespace

Words::Words(std::string_view line) {
  std::istringstream in{std::string(line)};
  in >> verb_;
  for (std::string word; in >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    values_[word.substr(0, equals)] = equals < word.size() ? word.substr(equals + 1) : "";
  }
}

std::string Words::text(std::string_view key, std::string_view otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

std::int64_t Words::number(std::string_view key, std::int64_t otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? otherwise : std::strtoll(found->second.c_str(), nullptr, 10);
}

std::vector<std::size_t> Words::sizes(std::string_view key) const {
  std::vector<std::size_t> sizes;
  std::istringstream in(text(key, "4"));
  for (std::string size; std::getline(in, size, ',');) sizes.push_back(std::strtoull(size.c_str(), nullptr, 10));
  return sizes;
}

Commands::Commands(fabring::Engine& engine) : engine_(engine) { communicators_["world"] = engine.world(); }

Commands::~Commands() {
  if (!threads_.empty()) (void)engine_.leave();  // ends what they wait for
  for (std::thread& thread : threads_) thread.join();
}

Communicator Commands::on(const Words& words) const {
  const auto found = communicators_.find(words.text("on", "world"));
  return found == communicators_.end() ? Communicator() : found->second;
}

Exit Commands::run(std::string_view line) {
  const Words words(line);
  if (words.verb() == "loop") return loop(words);
  if (words.verb() == "async") return async(words);
  if (words.verb() == "background") return background(words);
  if (words.verb() == "split") return split(words);
  if (words.verb() == "subgroup") return subgroup(words);
  if (words.verb() == "shrink") return shrink(words);
  if (words.verb() == "drop") return drop(words);
  if (words.verb() == "abort") return abort(words);
  if (words.verb() == "buffers") return buffers(words);
  if (words.verb() == "call") return call(words);
  if (words.verb() == "call_v") return call_v(words);
  if (words.verb() == "health") return health(words);
  if (words.verb() == "blocks" || words.verb() == "messages" || words.verb() == "crossed" || words.verb() == "crowd")
    return exchange(words);
  if (words.verb() == "rough") return rough(words);
  if (words.verb() == "work") return work(words);
  if (words.verb() == "stuck") return stuck(words);
  if (words.verb() == "worker") {
    start_worker();
    return Exit::fine;
  }
  if (words.verb() == "serve") return serve();
  if (words.verb() == "leave") return leave();
  std::cerr << "rank_program: no command '" << line << "'\n";
  return Exit::usage;
}

Exit Commands::loop(const Words& words) {
  Communicator communicator = on(words);
  const auto type = fabring::parse_data_type(words.text("type", "float32"));
  const auto op = fabring::parse_reduce_op(words.text("op", "sum"));
  if (!type || !op) return Exit::usage;
  CheckedVector vector(*type, *op, words.number("mapped", 0) != 0 ? &engine_ : nullptr);
  Sizes sizes(words.sizes("sizes"), static_cast<std::uint64_t>(words.number("seed", 1)));
  const std::int64_t steps = words.number("steps", 1), every = words.number("every", 0);
  for (std::int64_t step = 1; steps == 0 || step <= steps; ++step) {
    vector.fill(sizes.next() / fabring::size_of(*type), communicator.rank(), static_cast<std::uint64_t>(step),
                step % 2 == 0);
    const Status done = communicator.allreduce(vector.in(), vector.out(), vector.count(), *type, *op);
    if (!done.ok()) return report("allreduce", done);
    if (const auto index = vector.first_wrong(communicator.size()))
      return report_wrong(vector, *index, static_cast<std::uint64_t>(step));
    if (step == 1 || (every > 0 && step % every == 0)) Event("step").number("n", step);
  }
  const std::vector<std::size_t> all = words.sizes("sizes");
  const std::size_t largest = *std::max_element(all.begin(), all.end()) / fabring::size_of(*type);
  const fabring::Choice choice =
      communicator.explain(fabring::Operation::allreduce(nullptr, nullptr, largest, *type, *op));
  Event("done").text("algorithm", choice.algorithm).text("on", words.text("on", "world"));
  return Exit::fine;
}

Exit Commands::async(const Words& words) {
  struct Queued {
    std::unique_ptr<CheckedVector> vector;
    fabring::Work work;
    std::int64_t step;
  };
  Communicator communicator = on(words);
  const auto type = fabring::DataType::float32;
  const auto op = fabring::ReduceOp::sum;
  Sizes sizes(words.sizes("sizes"), static_cast<std::uint64_t>(words.number("seed", 1)));
  const std::int64_t steps = words.number("steps", 1), every = words.number("every", 0);
  const auto window = static_cast<std::size_t>(words.number("window", 4));
  std::deque<Queued> queue;
  Exit exit = Exit::fine;
  for (std::int64_t step = 1; exit == Exit::fine && (steps == 0 || step <= steps || !queue.empty());) {
    if (queue.size() < window && (steps == 0 || step <= steps)) {
      auto vector = std::make_unique<CheckedVector>(type, op, words.number("mapped", 0) != 0 ? &engine_ : nullptr);
      vector->fill(sizes.next() / sizeof(float), communicator.rank(), static_cast<std::uint64_t>(step), step % 2 == 0);
      fabring::Work begun = communicator.allreduce_async(vector->in(), vector->out(), vector->count(), type, op);
      if (step == 1) Event("begun").text("on", words.text("on", "world"));
      queue.push_back({std::move(vector), std::move(begun), step++});
      continue;
    }
    Queued first = std::move(queue.front());
    queue.pop_front();
    const Status done = first.work.wait();
    if (!done.ok())
      exit = report("async", done);
    else if (const auto index = first.vector->first_wrong(communicator.size()))
      exit = report_wrong(*first.vector, *index, static_cast<std::uint64_t>(first.step));
    else if (first.step == 1 || (every > 0 && first.step % every == 0))
      Event("step").number("n", first.step).text("on", words.text("on", "world"));
  }
  // The buffers are theirs until they are done; after an error that must not take long either.
  for (Queued& left : queue) (void)left.work.wait();
  Event("done").text("on", words.text("on", "world")).number("waited", static_cast<std::int64_t>(queue.size()));
  return exit;
}

Exit Commands::background(const Words& words) {
  threads_.emplace_back([this, words] { (void)async(words); });
  return Exit::fine;
}

Exit Commands::split(const Words& words) {
  const std::string name = words.text("name", "part");
  auto part =
      on(words).split(static_cast<int>(words.number("colour", 0)), static_cast<int>(words.number("key", 0)), name);
  if (!part) return report("split", part.error());
  Event("split")
      .text("name", name)
      .number("rank", part->rank())
      .number("size", part->size())
      .numbers("nodes", part->nodes());
  communicators_[name] = std::move(*part);
  return Exit::fine;
}

Exit Commands::subgroup(const Words& words) {
  std::vector<fabring::Rank> ranks;
  for (const std::size_t rank : words.sizes("ranks")) ranks.push_back(static_cast<fabring::Rank>(rank));
  const std::string name = words.text("name", "part");
  auto part = on(words).subgroup(ranks, static_cast<std::uint32_t>(words.number("number", 1)), name);
  Event("subgroup").text("name", name).error(part ? Status() : part.error());
  if (part) communicators_[name] = std::move(*part);
  return Exit::fine;
}

Exit Commands::shrink(const Words& words) {
  const std::string name = words.text("name", "left");
  auto left = on(words).shrink();
  Event("shrink")
      .text("name", name)
      .text("label", left ? left->label() : "")
      .number("place", left ? left->rank() : -1)
      .number("size", left ? left->size() : 0)
      .error(left ? Status() : left.error());
  if (left) communicators_[name] = std::move(*left);
  return Exit::fine;
}

Exit Commands::drop(const Words& words) {
  communicators_.erase(words.text("name", "part"));
  return Exit::fine;
}

Exit Commands::abort(const Words& words) {
  const auto before = std::chrono::steady_clock::now();
  on(words).abort(words.text("reason", "the-test-said-so"));
  const auto took = std::chrono::steady_clock::now() - before;
  Event("abort").number("microseconds", std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  return Exit::fine;
}

Exit Commands::buffers(const Words& words) {
  Communicator world = on(words);
  alignas(64) float values[64] = {};
  const auto type = fabring::DataType::float32;
  const auto op = fabring::ReduceOp::sum;
  const char* bytes = reinterpret_cast<const char*>(values);
  char* writable = reinterpret_cast<char*>(values);
  const struct {
    const char* name;
    const void* in;
    void* out;
    std::size_t count;
  } wrong[] = {{"null input", nullptr, values, 8},
               {"null output", values, nullptr, 8},
               {"misaligned input", bytes + 2, values + 32, 8},
               {"misaligned output", values, writable + 130, 8},
               {"overlap", values, values + 4, 8},
               {"huge count", values, values, static_cast<std::size_t>(-1) / 2}};
  for (const auto& call : wrong) {
    const Status done = world.allreduce(call.in, call.out, call.count, type, op);
    Event("refused").text("name", call.name).error(done);
    const Status later = world.allreduce_async(call.in, call.out, call.count, type, op).wait();
    Event("refused").text("name", call.name).error(later);
  }
  const Status nothing = world.allreduce(nullptr, nullptr, 0, type, op);
  return nothing.ok() ? loop(Words("loop steps=3 sizes=4,4096")) : report("count 0", nothing);
}

Exit Commands::call(const Words& words) {
  const auto what = fabring::parse_collective(words.text("what", "broadcast"));
  if (!what) return Exit::usage;
  const Called called =
      call_once(on(words), *what, words.text("mode", "blocking"), words.text("wrong", ""),
                static_cast<std::size_t>(words.number("count", 4)), static_cast<fabring::Rank>(words.number("root", 0)),
                static_cast<std::int32_t>(words.number("tag", 0)));
  Event("called").text("on", words.text("on", "world")).number("right", called.right ? 1 : 0).error(called.status);
  return called.status.ok() && !called.right && words.number("check", 1) != 0 ? Exit::wrong : Exit::fine;
}

Exit Commands::call_v(const Words& words) {
  const auto what = fabring::parse_collective(words.text("what", "all_gather"));
  if (!what) return Exit::usage;
  const bool equal = words.text("lengths", "").empty();
  const Called called = call_of_blocks(
      on(words), *what, words.text("mode", "blocking"), equal ? std::vector<std::size_t>() : words.sizes("lengths"),
      static_cast<std::size_t>(words.number("count", 4)), static_cast<fabring::Rank>(words.number("root", 0)));
  Event("called").text("on", words.text("on", "world")).error(called.status);
  return Exit::fine;
}

Exit Commands::health(const Words& words) {
  const Communicator communicator = on(words);
  while (communicator.health().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Event("health").text("on", words.text("on", "world")).error(communicator.health());
  return Exit::fine;
}

Exit Commands::exchange(const Words& words) {
  const auto steps = static_cast<int>(words.number("steps", 1));
  const auto unit = static_cast<std::size_t>(words.number("unit", 100));
  const auto done = words.verb() == "blocks"     ? exchange_blocks(on(words), steps, unit)
                    : words.verb() == "messages" ? exchange_messages(on(words), steps, unit)
                    : words.verb() == "crowd"    ? exchange_crowd(on(words), steps, unit)
                                                 : exchange_crossed(on(words), steps, unit);
  if (!done.status.ok()) return report(words.verb(), done.status);
  if (done.wrong.empty()) return Exit::fine;
  Event("wrong").text("what", done.wrong);
  return Exit::wrong;
}

Exit Commands::rough(const Words& words) {
  const auto type = fabring::parse_data_type(words.text("type", "float32"));
  const auto op = fabring::parse_reduce_op(words.text("op", "sum"));
  if (!type || !op) return Exit::usage;
  Rounded all;
  for (const std::size_t size : words.sizes("sizes")) {
    const Status done =
        reduce_rough(on(words), *type, *op, size, words.number("mapped", 0) != 0 ? &engine_ : nullptr, all);
    if (!done.ok()) return report("rough", done);
    if (!all.wrong.empty()) break;
  }
  Event("digest").text("bits", all.digest()).text("wrong", all.wrong);
  return all.wrong.empty() ? Exit::fine : Exit::wrong;
}

Exit Commands::stuck(const Words& words) {
  const auto never_returns = [](void*, const void*, std::size_t, fabring::DataType, void*) {
    Event("stuck");
    for (;;) ::pause();
  };
  std::vector<float> data(4096, 1);
  return report("stuck", on(words).allreduce(data.data(), data.data(), data.size(), fabring::DataType::float32,
                                             fabring::Reduction::user(never_returns, nullptr, true)));
}

Exit Commands::work(const Words& words) {
  std::this_thread::sleep_for(std::chrono::milliseconds(words.number("ms", 1)));
  return Exit::fine;
}

Exit Commands::serve() {
  Event("serving").number("commands", 0);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "end") break;
    const Exit exit = run(line);
    Event("served").text("command", line).number("exit", static_cast<int>(exit));
    if (exit == Exit::wrong || exit == Exit::usage) return exit;
  }
  return Exit::fine;
}

Exit Commands::leave() {
  Event("leaving").number("now", 1);
  const Status left = engine_.leave();
  if (!left.ok()) return report("leave", left);
  Event("left").number("now", 1);
  return Exit::fine;
}

}  // namespace rank_program
