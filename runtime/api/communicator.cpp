#include "fabring/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/api/engine_of.hpp"
#include "runtime/api/own_rank.hpp"
#include "runtime/api/run_step.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/engine/call/call_buffers.hpp"
#include "runtime/engine/call/group_overlap.hpp"
#include "runtime/engine/call/make_call.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

// ---- Work ---------------------------------------------------------------------------------------------------------

Work::Work(std::shared_ptr<Execution> execution) : execution_(std::move(execution)) {}

Status Work::wait() { return wait_for(std::chrono::nanoseconds::max()); }

Status Work::wait_for(std::chrono::nanoseconds limit) {
  if (!execution_) return {};
  if (is_parents(execution_->communicator())) return no_engine(execution_->communicator());
  if (!execution_->done()) {
    const auto engine = engine_of(execution_->communicator());
    if (!engine) return gone;
    return engine->wait(*execution_, std::max(limit, std::chrono::nanoseconds(0)));  // now + min() would overflow
  }
  return execution_->status();
}

bool Work::done() {
  if (!execution_ || is_parents(execution_->communicator()) || execution_->done()) return true;
  if (const auto engine = engine_of(execution_->communicator())) engine->drive_once();
  return execution_->done();
}

void Work::notify(void (*function)(void*), void* context) {
  if (execution_ && !is_parents(execution_->communicator()))
    execution_->notify(function, context);
  else if (function != nullptr)
    Execution::tell(function, context);
}

Status Work::status() const {
  if (!execution_) return {};
  return is_parents(execution_->communicator()) ? no_engine(execution_->communicator()) : execution_->status();
}

Received Work::received() const {
  return execution_ && !is_parents(execution_->communicator()) ? execution_->received() : Received();
}

// ---- Communicator -------------------------------------------------------------------------------------------------

Communicator::Communicator(std::shared_ptr<CommunicatorCore> core) : core_(std::move(core)) {}

Rank Communicator::rank() const { return core_ ? core_->self : -1; }
int Communicator::size() const { return core_ ? core_->size() : 0; }

const std::string& Communicator::label() const {
  static const std::string none;
  return core_ ? core_->label : none;
}

std::vector<Rank> Communicator::members() const { return core_ ? core_->members : std::vector<Rank>(); }

std::vector<int> Communicator::nodes() const { return core_ ? core_->node_of : std::vector<int>(); }

Status Communicator::health() const {
  if (!core_ || is_parents(core_)) return no_engine(core_);
  if (const auto engine = engine_of(core_)) return engine->failure_of(*core_);
  std::lock_guard lock(core_->mutex);
  return core_->failed.ok() ? gone : core_->failed;
}

namespace {

std::shared_ptr<Execution> failed_execution(const std::shared_ptr<CommunicatorCore>& core, const Status& why) {
  static const auto empty = std::make_shared<const PreparedPlan>(Plan{});
  auto execution = std::make_shared<Execution>(core, Call{}, empty, 0, Tiling{});
  execution->fail(why);
  execution->publish();
  return execution;
}

// What a call needs before it has a number: nothing has been sent of it, and its caller may repeat it.
Status no_memory(const CommunicatorCore& core, const Operation& operation) {
  return Status(ErrorCode::out_of_memory,
                fmt::format("{} on '{}', rank {}{}: this process has no memory left for what the call needs; see what "
                            "ulimit -v and the limits of its container allow",
                            name(operation.collective), core.label, core.self, core.in_the_job(core.self)),
                own_fault(core, name(operation.collective)));
}

std::shared_ptr<const ChoiceTable> choices_of(EngineCore& engine, CommunicatorCore& core) {
  {
    std::lock_guard lock(core.mutex);
    if (core.choices) return core.choices;
  }
  auto choices = engine.choices(core.shape());
  std::lock_guard lock(core.mutex);
  core.choices = choices;
  return choices;
}

// The others must hear of a device that fails on this rank, and of a call that it does not make after all.
void not_called(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core, const Status& why) {
  if (why.code() == ErrorCode::device_error) return engine.call_failed(*core, why);
  engine.refusals().refused(core, why);
}

void not_called(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core, const Operation& operation,
                const Status& why) {
  if (is_message(operation.collective)) return engine.refusals().refused(core, operation, why);
  not_called(engine, core, why);
}

Result<Call> call_of(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core, const Operation& operation) {
  return make_call(operation, *core, *choices_of(engine, *core), engine.config(), engine.device());
}

Result<Call> call_if_there_is_memory(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core,
                                     const Operation& operation) {
  try {
    return call_of(engine, core, operation);
  } catch (const std::bad_alloc&) {
    return no_memory(*core, operation);
  }
}

Result<Call> checked_call(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core,
                          const Operation& operation) {
  auto call = call_if_there_is_memory(engine, core, operation);
  if (!call) not_called(engine, core, operation, call.error());
  return call;
}

// Submits it, or nothing at all.
Result<std::shared_ptr<Execution>> submit(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core, Call call,
                                          bool background, const Operation& operation) {
  try {
    return engine.submit(core, std::move(call), background, &operation);
  } catch (const std::bad_alloc&) {
    return no_memory(*core, operation);
  }
}

std::shared_ptr<Execution> submit_or_refuse(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core,
                                            Call call, bool background, const Operation& operation) {
  auto execution = submit(engine, core, std::move(call), background, operation);
  if (execution) return *execution;
  not_called(engine, core, operation, execution.error());
  return failed_execution(core, execution.error());
}

// As EngineCore::run().
Status run_or_refuse(EngineCore& engine, const std::shared_ptr<CommunicatorCore>& core, Call call,
                     const Operation& operation) {
  try {
    return engine.run(core, std::move(call), operation);
  } catch (const std::bad_alloc&) {
    const Status why = no_memory(*core, operation);
    not_called(engine, core, operation, why);
    return why;
  }
}

// After one that was refused no collective is begun: it would meet another one of the group on the other ranks.
std::vector<Work> begin_group(const std::shared_ptr<CommunicatorCore>& core, std::span<const Operation> operations,
                              bool background) {
  const auto engine = engine_of(core);
  if (!engine) return std::vector<Work>(operations.size(), Work(failed_execution(core, no_engine(core))));
  std::vector<Result<Call>> calls;
  calls.reserve(operations.size());
  for (const Operation& operation : operations) calls.push_back(call_if_there_is_memory(*engine, core, operation));
  const Status overlap = check_group(calls, *core);
  std::vector<Work> works;
  works.reserve(operations.size());
  Status refused;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const bool collective = !is_message(operations[i].collective);
    Status wrong = !overlap.ok() ? overlap : calls[i] ? Status() : calls[i].error();
    if (collective && overlap.ok() && !refused.ok()) {
      works.emplace_back(
          failed_execution(core, refused.with_prefix("not begun, as one before it in its group was refused: ")));
      continue;
    }
    if (wrong.ok()) {
      auto begun = submit(*engine, core, std::move(*calls[i]), background, operations[i]);
      if (begun) works.emplace_back(std::move(*begun));
      wrong = begun.error();
    }
    if (wrong.ok()) continue;
    not_called(*engine, core, operations[i], wrong);
    works.emplace_back(failed_execution(core, wrong));
    if (collective) refused = wrong;
  }
  return works;
}

// Nothing of it is begun where there is no memory for it as a whole.
std::vector<Work> begin_all_or_refuse(const std::shared_ptr<CommunicatorCore>& core,
                                      std::span<const Operation> operations, bool background) {
  try {
    return begin_group(core, operations, background);
  } catch (const std::bad_alloc&) {
    std::vector<Work> works;
    const auto engine = engine_of(core);
    for (const Operation& operation : operations) {
      const Status why = engine ? no_memory(*core, operation) : no_engine(core);
      if (engine) not_called(*engine, core, operation, why);
      works.emplace_back(failed_execution(core, why));
    }
    return works;
  }
}

// The program called this, and nothing of the sizes of its steps.
Status named(const CommunicatorCore& core, StepOf of, const Status& why) {
  std::vector<Rank> asked = core.members;
  std::sort(asked.begin(), asked.end());
  ErrorContext context = why.context();
  context.collective = name(of);
  context.bytes = 0;
  return why.with_prefix(fmt::format("{} of '{}' ({}) failed: ", name(of), core.label, rank_list(asked)))
      .with_context(std::move(context));
}

}  // namespace

Status run_step(const std::shared_ptr<CommunicatorCore>& core, const Operation& operation, StepOf of) {
  const auto engine = engine_of(core);
  if (!engine) return no_engine(core);
  auto call = checked_call(*engine, core, operation);
  if (!call) return named(*core, of, call.error());
  call->step_of = of;
  const Status ended = run_or_refuse(*engine, core, std::move(*call), operation);
  return ended.ok() ? ended : named(*core, of, ended);
}

Status Communicator::run(const Operation& operation) {
  if (!core_ || is_parents(core_)) return no_engine(core_);
  if (auto status = EngineCore::run_again(core_, operation)) return *std::move(status);
  const auto engine = engine_of(core_);
  if (!engine) return no_engine(core_);
  auto call = checked_call(*engine, core_, operation);
  if (!call) return call.error();
  return run_or_refuse(*engine, core_, std::move(*call), operation);
}

Work Communicator::start(const Operation& operation) {
  const auto engine = engine_of(core_);
  if (!engine) return Work(failed_execution(core_, no_engine(core_)));
  auto call = checked_call(*engine, core_, operation);
  if (!call) return Work(failed_execution(core_, call.error()));
  return Work(submit_or_refuse(*engine, core_, std::move(*call), true, operation));
}

std::vector<Work> Communicator::start_group(std::span<const Operation> operations) {
  return begin_all_or_refuse(core_, operations, true);
}

Status Communicator::run_group(std::span<const Operation> operations) {
  std::vector<Work> works = begin_all_or_refuse(core_, operations, false);
  Status first;
  for (Work& work : works)
    if (const Status status = work.wait(); first.ok()) first = status;
  return first;
}

Choice Communicator::explain(const Operation& operation) const {
  const auto engine = engine_of(core_);
  if (!engine) return {"none", no_engine(core_).message(), {}, no_engine(core_)};
  const auto choices = choices_of(*engine, *core_);
  const auto call = make_call_without_buffers(operation, *core_, *choices, engine->config());
  if (!call) return {"none", call.error().message(), {}, call.error()};
  if (is_message(call->collective)) return {"message", "one message", {}};
  if (call->given) return {call->given->plan->plan.algorithm, "the plans that this communicator was given", {}};
  const WorldShape& shape = core_->shape();
  const Constraints constraints = constraints_of(*call, engine->config());
  const std::size_t bytes = call->choice_bytes();
  const Chosen chosen = choices->choose(call->collective, bytes, constraints);
  Choice choice{std::string(name(chosen.algorithm)), reason_text(chosen, call->collective, bytes, shape), {}};
  if (lengths_by_pair(*call)) choice.reason += "; chosen as for no bytes, as each rank knows only its own lengths";
  if (uses_devices(operation, engine->device())) {
    auto with_buffers = make_call(operation, *core_, *choices, engine->config(), engine->device());
    choice.reason += "; GPU memory: " + (with_buffers ? engine->device_path(*core_, std::move(*with_buffers)).text()
                                                      : with_buffers.error().message());
  }
  for (const Candidate& one : candidates(call->collective, bytes, shape, engine->pricing_machine(), constraints))
    choice.candidates.push_back({std::string(name(one.algorithm)),
                                 one.predicted ? static_cast<double>(*one.predicted) * 1e-3 : 0.0,
                                 std::string(one.excluded)});
  return choice;
}

Status Communicator::refused(const Operation& operation, const Status& why) {
  const auto engine = engine_of(core_);
  if (engine && is_message(operation.collective))
    engine->refusals().refused(core_, operation, why);
  else if (engine)
    engine->refusals().refused(core_, why);
  return core_ ? with_own_rank(*core_, why) : why;
}

void Communicator::abort(std::string reason) {
  if (const auto engine = engine_of(core_)) engine->abort(*core_, std::move(reason));
}

// ---- Prepared -----------------------------------------------------------------------------------------------------

struct Prepared::State {
  std::shared_ptr<CommunicatorCore> core;
  Operation operation;  // run() needs it for small ones only, which have no blocks of different lengths
  Call call;            // what it owns all starts work on: one that is in place waits for the one before it

  std::shared_ptr<Execution> start(EngineCore& engine, bool background) const {
    return start(engine, background, call.device.stream);
  }
  std::shared_ptr<Execution> start(EngineCore& engine, bool background, void* stream) const {
    Call now = call;
    now.device.stream = stream;
    if (now.device.any()) {
      if (const Status marked = mark_stream(now, *engine.device()); !marked.ok()) {
        not_called(engine, core, marked);
        return failed_execution(core, marked.with_prefix(now.describe() + ": "));
      }
    }
    return submit_or_refuse(engine, core, std::move(now), background, operation);
  }
};

Result<Prepared> Communicator::prepare(const Operation& operation) {
  const auto engine = engine_of(core_);
  if (!engine) return no_engine(core_);
  if (operation.collective == Collective::send || operation.collective == Collective::recv)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("prepare({}) on '{}', rank {}{}: a send or recv cannot be prepared; start it each time",
                              name(operation.collective), core_->label, core_->self, core_->in_the_job(core_->self)),
                  own_fault(*core_, name(operation.collective)));
  auto call = checked_call(*engine, core_, operation);
  if (!call) return call.error();
  call->device.ready.reset();  // each start has a moment of its own
  Prepared prepared;
  prepared.state_ = std::make_shared<Prepared::State>();
  prepared.state_->core = core_;
  prepared.state_->operation = operation;
  prepared.state_->call = std::move(*call);
  if (const auto& tensors = prepared.state_->call.tensors) prepared.state_->operation.tensors = *tensors;
  FABRING_TRY(engine->prepare(*core_, prepared.state_->call));
  return prepared;
}

Work Prepared::start() {
  if (!state_) return Work(failed_execution(nullptr, gone));
  const auto engine = engine_of(state_->core);
  if (!engine) return Work(failed_execution(state_->core, no_engine(state_->core)));
  return Work(state_->start(*engine, true));
}

Work Prepared::start_on(void* stream) {
  if (!state_) return Work(failed_execution(nullptr, gone));
  const auto engine = engine_of(state_->core);
  if (!engine) return Work(failed_execution(state_->core, no_engine(state_->core)));
  return Work(state_->start(*engine, true, stream));
}

Status Prepared::run() {
  if (!state_) return gone;
  const auto engine = engine_of(state_->core);
  if (!engine) return no_engine(state_->core);
  if (state_->call.device.any()) return Work(state_->start(*engine, false)).wait();
  if (!state_->operation.by_blocks)
    if (auto status = EngineCore::run_again(state_->core, state_->operation)) return *std::move(status);
  return run_or_refuse(*engine, state_->core, state_->call, state_->operation);
}

void Prepared::refused(const Status& why) {
  if (const auto engine = state_ ? engine_of(state_->core) : nullptr) engine->refusals().refused(state_->core, why);
}

}  // namespace fabring
