#include "tests/support/sim_world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "runtime/base/log_line.hpp"
#include "runtime/engine/call/make_call.hpp"

namespace fabring::fixture {

// Every engine would price its own; worlds are many and their shapes few.
const ChoiceTable& choices_for(const WorldShape& shape) {
  static std::deque<ChoiceTable> tables;
  for (const ChoiceTable& table : tables)
    if (table.shape() == shape) return table;
  return tables.emplace_back(ChoiceTable::make(shape, *find_machine("loopback-tcp")));
}

/// As many ranks on each node, but one to each in turn, as long as it has room.
static std::vector<int> dealt_in_turn(const std::vector<int>& node_of) {
  std::vector<std::pair<std::ptrdiff_t, int>> places;  // among the ranks of its node, and the node
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const auto before = node_of.begin() + static_cast<std::ptrdiff_t>(rank);
    places.emplace_back(std::count(node_of.begin(), before, *before), *before);
  }
  std::sort(places.begin(), places.end());
  std::vector<int> dealt;
  for (const auto& [place, node] : places) dealt.push_back(node);
  return dealt;
}

SimWorld::SimWorld(SimWorldOptions options) : options_(std::move(options)), timeline_(options_.seed) {
  const int ranks = options_.ranks;
  fabric_ = std::make_unique<SimFabric>(timeline_, ranks, options_.weather);
  control_ = std::make_unique<SimControl>(timeline_, ranks);
  alive_.assign(ranks, true);
  paused_.assign(ranks, 0);
  open_.resize(ranks);
  calls_until_.assign(ranks, Time(0));
  constexpr double shares[] = {0.05, 0.3, 0.6, 0.9};
  step_share_ = shares[timeline_.below(4)];
  if (options_.device) device_ = std::make_shared<FakeDevice>(options_.seed * 131 + 7, options_.devices);
  if (device_ && options_.cards) fabric_->reach(device_, *options_.cards);
  std::vector<int> node_of;
  for (std::size_t node = 0; node < options_.nodes.size(); ++node)
    node_of.insert(node_of.end(), options_.nodes[node], static_cast<int>(node));
  node_of.resize(ranks, node_of.empty() ? 0 : node_of.back());
  if (options_.dealt) node_of = dealt_in_turn(node_of);
  for (Rank rank = 0; rank < ranks; ++rank) {
    EngineParts parts;
    parts.config.segment_bytes = options_.segment_bytes;
    parts.config.depth = options_.depth;
    parts.config.scratch_bytes = options_.short_of_memory == rank ? 4096 : options_.scratch_bytes;
    parts.agreed.least_scratch_bytes = options_.scratch_bytes;
    parts.config.timeout = options_.timeout;
    parts.config.reproducible = options_.reproducible;
    parts.config.leave_timeout = std::chrono::milliseconds(0);  // the others stay, and time is real there
    parts.config.staging_bytes = options_.staging_bytes;
    parts.config.gpu_path = options_.gpu_path;
    parts.device = device_;
    parts.agreed.lent_segment_bytes = options_.lent_segment_bytes;
    parts.agreed.long_segment_bytes = options_.long_segment_bytes;
    parts.agreed.unasked_limit = options_.unasked_limit;
    if (device_) streams_.push_back(device_->open_stream(0));
    parts.eager_bytes = options_.eager_bytes;
    parts.agreed.parcels = options_.parcels;
    parts.self = rank;
    parts.world_size = ranks;
    parts.node_of = node_of;
    if (ranks > 1) {
      parts.endpoint = fabric_->open(rank);
      parts.control = control_->open(rank);
    }
    if (options_.most_running != 0) parts.most_running = options_.most_running;
    parts.clock = std::shared_ptr<Clock>(&timeline_, [](Clock*) {});
    parts.machine = *find_machine(options_.machine);
    parts.waiting.yield_for = std::chrono::microseconds(0);
    parts.log = Log(LogLevel::info, rank, [this](LogLevel level, int of, std::string_view text) {
      log_.push_back(log_line(level, of, text));
      if (level <= LogLevel::warning) warnings_.push_back(log_.back());
    });
    engines_.push_back(EngineCore::make(std::move(parts)));
  }
  Group everyone;
  for (Rank rank = 0; rank < ranks; ++rank) {
    everyone.members.push_back(rank);
    everyone.made.push_back(engines_[rank]->world());
  }
  groups_.push_back(std::move(everyone));
  for (bool ready = false; !ready;) {
    ready = true;
    for (auto& engine : engines_) ready = engine->ready_to_receive() && ready;
    timeline_.pass(std::chrono::microseconds(10));
  }
}

SimWorld::~SimWorld() {
  if (!failed_) check_aftermath();
  fabric_->end();
  timeline_.clear();
  groups_.clear();
  engines_.clear();  // before the buffers of what ranks that died have under way
  operations_.clear();
  open_.clear();
}

void SimWorld::drop_with_operations(Rank rank, int group) {
  std::erase_if(operations_, [&](const auto& operation) {
    return operation->rank == rank && operation->group == group && operation->done();
  });
  drop(rank, group);
}

int SimWorld::group(std::vector<Rank> members) {
  Group made;
  made.members = std::move(members);
  made.made.resize(engines_.size());
  groups_.push_back(std::move(made));
  return static_cast<int>(groups_.size()) - 1;
}

std::shared_ptr<CommunicatorCore> SimWorld::communicator(Rank rank, int group) {
  auto& made = groups_[group].made[rank];
  if (!made)
    made = engines_[rank]->make_communicator(static_cast<std::uint32_t>(group) + 1, fmt::format("group{}", group),
                                             groups_[group].members);
  return made;
}

std::shared_ptr<SimOperation> SimWorld::call(Rank rank, Request what, int group) {
  auto operation = std::make_shared<SimOperation>();
  const auto core = communicator(rank, group);
  operation->rank = rank;
  operation->group = group;
  operation->what = what;
  operation->data = data_of(what, core->self, core->size());
  RankData& data = operation->data;
  operation->out = buffer(data.out.size());
  std::byte* in = operation->out->address() + data.in_at;
  if (!data.one_buffer) {
    operation->in = buffer(data.in.size());
    in = operation->in->address();
  }
  Operation asked = data.operation(what, in, operation->out->address() + data.out_at);
  asked.timeout = what.timeout;
  if (device_) asked.stream = stream(rank);
  // What is on a device is written there some time later, by work that the operation is ordered behind.
  const auto fill = [&](GuardedBytes* buffer, const std::vector<std::byte>& bytes) {
    if (buffer == nullptr) return;
    const auto write = [operation, buffer, &bytes] { std::copy(bytes.begin(), bytes.end(), buffer->data()); };
    buffer->address() == buffer->data() ? write() : device_->enqueue(asked.stream, write);
  };
  fill(operation->out.get(), data.out);
  fill(operation->in.get(), data.in);
  EngineCore& engine = *engines_[rank];
  auto call = make_call(asked, *core, choices_for(core->shape()), engine.config(), device_.get());
  if (!call) {
    fail("refused: " + call.error().to_string());
    return operation;
  }
  if (device_ && !call->device.any()) device_->synchronize();  // it is not ordered behind anything
  if (what.algorithm) {
    call->algorithm = *what.algorithm;
  } else if (options_.algorithm && has_algorithm(what.collective, *options_.algorithm) &&
             (what.counts.empty() || !needs_equal_blocks(what.collective, *options_.algorithm))) {
    call->algorithm = *options_.algorithm;
  }
  operation->execution = engine.submit(core, std::move(*call), false);
  operations_.push_back(operation);
  if (alive_[rank]) {
    open_[rank].push_back(operation);
    ++open_count_;
  }
  return operation;
}

std::unique_ptr<GuardedBytes> SimWorld::buffer(std::size_t bytes) {
  if (device_ && timeline_.chance(0.8)) return std::make_unique<GuardedBytes>(bytes, *device_);
  return std::make_unique<GuardedBytes>(bytes);
}

SimOperations SimWorld::everyone_calls(Request what, int group) {
  SimOperations called;
  for (Rank rank : groups_[group].members) called.push_back(call(rank, what, group));
  return called;
}

void SimWorld::everyone_calls_soon(Request what, Time spread, int group) {
  for (Rank rank : groups_[group].members) {
    Time& last = calls_until_[rank];
    last = std::max(last, timeline_.now() + timeline_.between(Time(0), spread));
    ++due_;
    timeline_.at(last, [this, rank, what, group] {
      --due_;
      if (alive_[rank]) call(rank, what, group);
    });
  }
}

void SimWorld::refuse(Rank rank, const std::string& why, int group) {
  if (alive_[rank])
    engines_[rank]->refusals().refused(communicator(rank, group), Status(ErrorCode::invalid_argument, why));
}

void SimWorld::mute(Rank rank) {
  alive_[rank] = false;
  open_count_ -= open_[rank].size();
  open_[rank].clear();
}

void SimWorld::kill(Rank rank) {
  if (!alive_[rank]) return;
  mute(rank);
  fabric_->kill(rank);
  control_->kill(rank);
}

void SimWorld::pause(Rank rank, Time span) {
  if (paused_[rank]++ == 0) control_->pause(rank);
  timeline_.after(span, [this, rank] {
    if (--paused_[rank] == 0) control_->resume(rank);
  });
}

bool SimWorld::run(Time limit) {
  if (run_until([this] { return open_count_ == 0 && due_ == 0; }, limit)) return true;
  std::string waiting;
  for (const auto& open : open_)
    for (const auto& operation : open)
      waiting += fmt::format("\n  rank {} in #{} {}", operation->rank, operation->execution->sequence(),
                             operation->execution->call().describe());
  fail("not done in time:" + waiting);
  return false;
}

bool SimWorld::run_until(const std::function<bool()>& enough, Time limit) {
  const Time end = timeline_.now() + limit;
  constexpr Time longest_nap = std::chrono::milliseconds(20);
  std::size_t idle = 0;
  while (!enough()) {
    if (timeline_.now() >= end || failed_) return false;
    if (timeline_.chance(step_share_) && timeline_.next(end) < end) {
      timeline_.step();
      continue;
    }
    const auto rank = static_cast<Rank>(timeline_.below(engines_.size()));
    if (alive_[rank] && paused_[rank] == 0 && engines_[rank]->progress()) {
      idle = 0;
      look_at(rank);
    } else if (++idle > 2 * engines_.size()) {  // nobody has anything to do: time passes
      idle = 0;
      const Time next = std::min({timeline_.next(end), timeline_.now() + longest_nap, end});
      timeline_.pass(next - timeline_.now());
      for (Rank each = 0; each < options_.ranks; ++each) look_at(each);
    }
  }
  return true;
}

void SimWorld::look_at(Rank rank) {
  auto& open = open_[rank];
  for (std::size_t i = 0; i < open.size();) {
    if (!open[i]->done()) {
      ++i;
      continue;
    }
    open[i]->seen_done = true;
    open[i]->done_at = timeline_.now();
    if (device_ && !open[i]->status().ok()) device_->synchronize();  // it need not have waited for its buffers
    check(*open[i]);
    for (const auto& buffer : {open[i]->in.get(), open[i]->out.get()})
      if (buffer != nullptr && fabric_->holds(rank, {buffer->data(), buffer->size()}))
        fail("the endpoint holds memory of a Work that is done");
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    --open_count_;
  }
}

void SimWorld::check(SimOperation& operation) {
  const auto where = [&] {
    return fmt::format("rank {} #{} {}: ", operation.rank, operation.execution->sequence(),
                       operation.execution->call().describe());
  };
  if (!operation.out->intact() || (operation.in && !operation.in->intact()))
    fail(where() + "bytes around a buffer changed");
  const RankData& data = operation.data;
  if (operation.in && !std::equal(data.in_after.begin(), data.in_after.end(), operation.in->data()))
    fail(where() + "the input changed");
  if (!operation.status().ok() || operation.what.rough) return;
  const auto differs = std::mismatch(data.out_after.begin(), data.out_after.end(), operation.out->data());
  if (differs.first != data.out_after.end())
    fail(where() + fmt::format("wrong from byte {} on, but reported as right", differs.first - data.out_after.begin()));
}

void SimWorld::expect_all_ok() {
  for (const auto& operation : operations_)
    if (operation->done() && !operation->status().ok())
      fail(fmt::format("rank {}: {}", operation->rank, operation->status().to_string()));
}

void SimWorld::check_aftermath() {
  for (const auto& operation : operations_)
    if (operation->seen_done) check(*operation);
  if (!fabric_->broken_rule().empty()) fail(fabric_->broken_rule());
}

void SimWorld::fail(const std::string& what) {
  if (failed_) return;
  failed_ = true;
  std::string failures;
  for (const Failure& failure : control_->failures()) failures += "\n  failure: " + failure.text;
  ADD_FAILURE() << what << "\n" << replay() << failures;
}

std::string SimWorld::replay() const {
  return fmt::format(
      "replay with FABRING_TEST_SEED={}: ranks={} nodes={}{} algorithm={} eager={} segment={} depth={} scratch={} "
      "landings={}x{} refusals={} device={} at {} us, after {} events, {} calls, trace {:x}",
      options_.seed, options_.ranks, options_.nodes, options_.dealt ? " dealt" : "",
      options_.algorithm ? name(*options_.algorithm) : "auto", options_.eager_bytes, options_.segment_bytes,
      options_.depth, options_.scratch_bytes, options_.parcels.landings.count, options_.parcels.landings.bytes,
      options_.weather.refusals, options_.device, timeline_.now().count() / 1000, timeline_.steps(), operations_.size(),
      timeline_.trace());
}

void keep_landings(SimWorldOptions& options, std::size_t count, std::size_t bytes) {
  constexpr std::size_t shortest_parcels = 512;
  options.parcels.longest = shortest_parcels;
  options.parcels.landings = {static_cast<std::uint32_t>(count), bytes};
  options.eager_bytes = std::min(options.eager_bytes, shortest_parcels - parcel_overhead);
}

SimWorldOptions any_world(int ranks, std::uint64_t seed) {
  std::mt19937_64 chance(seed * 31 + static_cast<std::uint64_t>(ranks));
  const auto one_of = [&](std::initializer_list<std::size_t> values) {
    return values.begin()[chance() % values.size()];
  };
  SimWorldOptions options;
  options.ranks = ranks;
  options.seed = seed;
  for (int left = ranks; left > 0 && chance() % 3 != 0;) {
    const int here = 1 + static_cast<int>(chance() % static_cast<std::uint64_t>(left));
    options.nodes.push_back(here);
    left -= here;
  }
  options.eager_bytes = one_of({0, 16, 64, 400, eager_bytes});
  options.segment_bytes = one_of({64, 200, 1024, 4096, 16384});
  options.depth = static_cast<int>(one_of({1, 2, 3, 5}));
  options.scratch_bytes = one_of({0, 0, 1 << 18});
  options.weather.refusals = one_of({0, 1, 5}) * 0.1;
  options.weather.queue = one_of({1, 2, 16});
  options.weather.most_latency = std::chrono::microseconds(one_of({2, 40, 1000}));
  if (chance() % 3 == 0) keep_landings(options, one_of({1, 2, 4}), one_of({700, 3000, 20000}));
  options.dealt = chance() % 3 == 0;
  return options;
}

Request any_allreduce(std::size_t count, std::mt19937_64& chance) {
  return any_request(Collective::allreduce, 1, count, chance);
}

std::vector<std::uint64_t> seeds(std::size_t fixed, std::size_t fresh) {
#ifdef __SANITIZE_THREAD__
  fixed = (fixed + 9) / 10;  // a simulated world is one thread, in which there is no race to find
  fresh = 0;
#endif
  if (const char* one = std::getenv("FABRING_TEST_SEED")) return {std::strtoull(one, nullptr, 10)};
  if (const char* many = std::getenv("FABRING_TEST_SEEDS")) fixed = std::strtoull(many, nullptr, 10);
  std::uint64_t first = 1;
  if (const char* from = std::getenv("FABRING_TEST_FIRST_SEED")) {
    first = std::strtoull(from, nullptr, 10);
    fresh = 0;
    fmt::print("{} seeds from {}\n", fixed, first);  // tools/faults.sh adds them up
  }
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < fixed; ++i) all.push_back(first + i);
  std::random_device device;
  for (std::size_t i = 0; i < fresh; ++i) {
    all.push_back(device());
    ::testing::Test::RecordProperty("fresh_seed_" + std::to_string(i), std::to_string(all.back()));
    fmt::print("fresh seed {}\n", all.back());
  }
  return all;
}

}  // namespace fabring::fixture
