#include "fabring/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/algorithms.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

const Status gone(ErrorCode::aborted, "the engine of this communicator is gone, or the communicator is empty");

Status check_arguments(const CommunicatorCore& core, const Call& call) {
  const auto wrong = [&](std::string what) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{} on '{}', rank {}: {}", call.describe(), core.label, core.self, what));
  };
  if (static_cast<int>(call.type) >= data_type_count) return wrong("no such type");
  if (static_cast<int>(call.op) >= reduce_op_count) return wrong("no such operation");
  if (!supports(call.type, call.op)) return wrong(fmt::format("{} has no {}", name(call.type), name(call.op)));
  if (call.op == ReduceOp::premul_sum || call.op == ReduceOp::user)
    return wrong(fmt::format("{} needs a {}, which this call does not take", name(call.op),
                             call.op == ReduceOp::user ? "function" : "factor"));
  const std::size_t element = size_of(call.type);
  if (call.count == 0) return {};
  if (call.count > SIZE_MAX / element) return wrong("count x size of the type is more than memory can hold");
  if (call.in == nullptr) return wrong("the input is null");
  if (call.out == nullptr) return wrong("the output is null");
  const auto in = reinterpret_cast<std::uintptr_t>(call.in);
  const auto out = reinterpret_cast<std::uintptr_t>(call.out);
  if (in % element != 0) return wrong(fmt::format("the input is not aligned to {} bytes", element));
  if (out % element != 0) return wrong(fmt::format("the output is not aligned to {} bytes", element));
  if (in != out && in < out + call.bytes() && out < in + call.bytes())
    return wrong("input and output overlap; pass the same pointer for both, or buffers that do not overlap");
  return {};
}

AlgorithmChoice choose(const EngineCore& engine, const CommunicatorCore& core, std::size_t bytes) {
  const std::string& asked = engine.config().algorithm;
  if (asked != "auto" && !asked.empty())
    if (const auto algorithm = parse_algorithm(asked)) return {*algorithm, "FABRING_ALGORITHM=" + asked};
  return choose_allreduce({bytes, core.size(), core.nodes()});
}

}  // namespace

// ---- Work ---------------------------------------------------------------------------------------------------------

Work::Work(std::shared_ptr<Execution> execution) : execution_(std::move(execution)) {}

Status Work::wait() { return wait_for(std::chrono::nanoseconds::max()); }

Status Work::wait_for(std::chrono::nanoseconds limit) {
  if (!execution_) return {};
  if (!execution_->done()) {
    const auto engine = execution_->communicator()->engine.lock();
    if (!engine) return gone;
    return engine->wait(*execution_, limit);
  }
  return execution_->status();
}

bool Work::done() {
  if (!execution_ || execution_->done()) return true;
  if (const auto engine = execution_->communicator()->engine.lock()) engine->drive_once();
  return execution_->done();
}

Status Work::status() const { return execution_ ? execution_->status() : Status(); }

// ---- Communicator -------------------------------------------------------------------------------------------------

Communicator::Communicator(std::shared_ptr<CommunicatorCore> core) : core_(std::move(core)) {}

Rank Communicator::rank() const { return core_ ? core_->self : -1; }
int Communicator::size() const { return core_ ? core_->size() : 0; }

const std::string& Communicator::label() const {
  static const std::string none;
  return core_ ? core_->label : none;
}

std::vector<int> Communicator::nodes() const { return core_ ? core_->node_of : std::vector<int>(); }

Status Communicator::health() const {
  if (!core_) return gone;
  std::lock_guard lock(core_->mutex);
  return core_->failed;
}

namespace {

Result<std::shared_ptr<Execution>> submit_allreduce(const std::shared_ptr<CommunicatorCore>& core, const void* in,
                                                    void* out, std::size_t count, DataType type, ReduceOp op,
                                                    bool background) {
  if (!core) return gone;
  const auto engine = core->engine.lock();
  if (!engine) return gone;
  Call call;
  call.in = static_cast<const std::byte*>(in);
  call.out = static_cast<std::byte*>(out);
  call.count = count;
  call.type = type;
  call.op = op;
  FABRING_TRY(check_arguments(*core, call));
  call.algorithm = choose(*engine, *core, call.bytes()).algorithm;
  return engine->submit(core, call, background);
}

std::shared_ptr<Execution> failed_execution(const std::shared_ptr<CommunicatorCore>& core, const Status& why) {
  static const auto empty = std::make_shared<const PreparedPlan>(Plan{});
  auto execution = std::make_shared<Execution>(core, Call{}, empty, 0, Tiling{});
  execution->fail(why);
  execution->publish();
  return execution;
}

}  // namespace

Status Communicator::allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
  auto execution = submit_allreduce(core_, in, out, count, type, op, false);
  if (!execution) return execution.error();
  return Work(*execution).wait();
}

Work Communicator::allreduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
  auto execution = submit_allreduce(core_, in, out, count, type, op, true);
  return Work(execution ? *execution : failed_execution(core_, execution.error()));
}

Choice Communicator::explain_allreduce(std::size_t count, DataType type, ReduceOp) const {
  const auto engine = core_ ? core_->engine.lock() : nullptr;
  if (!engine) return {"none", gone.message()};
  const AlgorithmChoice choice = choose(*engine, *core_, count * size_of(type));
  return {std::string(name(choice.algorithm)), choice.reason};
}

Status Communicator::barrier() {
  std::int32_t one = 1;
  return allreduce(&one, &one, 1, DataType::int32, ReduceOp::sum);
}

Result<Communicator> Communicator::split(int colour, int key, std::string label) {
  if (!core_) return gone;
  const auto engine = core_->engine.lock();
  if (!engine) return gone;
  // Everyone's (colour, key) and the next communicator number free everywhere.
  const auto size = static_cast<std::size_t>(core_->size());
  std::vector<std::int64_t> told(2 * size, 0);
  told[2 * core_->self] = colour;
  told[2 * core_->self + 1] = key;
  FABRING_TRY(allreduce(told.data(), told.data(), told.size(), DataType::int64, ReduceOp::sum));
  std::uint32_t id = engine->take_communicator_id(0);
  FABRING_TRY(allreduce(&id, &id, 1, DataType::uint32, ReduceOp::max));
  (void)engine->take_communicator_id(id);
  if (colour < 0) return Communicator();
  std::vector<Rank> chosen;
  for (Rank rank = 0; rank < core_->size(); ++rank)
    if (told[2 * rank] == colour) chosen.push_back(rank);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](Rank a, Rank b) { return told[2 * a + 1] < told[2 * b + 1]; });
  std::vector<Rank> members;
  for (Rank rank : chosen) members.push_back(core_->members[rank]);
  if (label.empty()) label = fmt::format("{}/{}", core_->label, colour);
  return Communicator(engine->make_communicator(id, std::move(label), std::move(members)));
}

void Communicator::abort(std::string reason) {
  if (!core_) return;
  if (const auto engine = core_->engine.lock()) engine->abort(*core_, std::move(reason));
}

}  // namespace fabring
