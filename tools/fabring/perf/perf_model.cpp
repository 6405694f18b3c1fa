// The gradients of a model, step after step, as data-parallel training sends them: every bucket's allreduce is started
// in the order of the backward pass, and the step ends when all are done. Beside it the same with a call for each
// tensor, begun together or one after the other, and with one call for all tensors.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/models.hpp"
#include "tools/fabring/perf/choice_lines.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/exact_data.hpp"
#include "tools/fabring/perf/measured_memory.hpp"
#include "tools/fabring/perf/model_report.hpp"
#include "tools/fabring/perf/perf_job.hpp"
#include "tools/fabring/perf/rough_data.hpp"
#include "tools/fabring/perf/timed_calls.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tools {
namespace {

// What is reduced: in memory of the host, or of a GPU, with a copy on the host to fill and check it by.
struct Gradients {
  MeasuredMemory on_host;
  std::byte* on_device = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<DeviceMemory> device;

  Status upload() const { return device ? device->copy(on_device, on_host.get(), bytes) : Status(); }
  Status download() const { return device ? device->copy(on_host.get(), on_device, bytes) : Status(); }
};

Result<Gradients> make_gradients(PerfJob& job, std::size_t bytes) {
  auto memory = measured_memory(job.engine(), job.options(), bytes);
  if (!memory) return memory.error();
  Gradients made{std::move(*memory), nullptr, bytes, job.device()};
  if (!made.device) return made;
  const auto block = made.device->allocate(bytes);
  if (!block) return block.error();
  made.on_device = *block;
  return made;
}

class Replay {
 public:
  /// `buckets`: bytes of each, which together fill the gradients.
  Replay(PerfJob& job, const Gradients& gradients, const std::vector<std::uint64_t>& buckets, Calls calls)
      : world_(job.world()),
        stopwatch_(job.engine()),
        options_(job.options()),
        calls_(calls),
        wire_type_(job.facts().wire_type),
        gradients_(gradients) {
    std::byte* at = gradients.on_device != nullptr ? gradients.on_device : gradients.on_host.get();
    for (const std::uint64_t bytes : buckets) {
      operations_.push_back(Operation::allreduce(at, at, bytes / size_of(options_.type), options_.type, reduction()));
      at += bytes;
      tensors_.push_back({operations_.back().in, operations_.back().out, operations_.back().count});
    }
  }

  /// How each size is reduced.
  void explain() const {
    std::set<std::size_t> told;
    for (const Operation& each : operations_)
      if (told.insert(each.count).second)
        tell_choice(size_text(each.count * size_of(each.type)), world_.explain(each), calls_ == Calls::buckets);
  }
  /// Beside what was predicted of calls one after the other; nothing is predicted of calls that run together.
  void explain(const ModelStep& measured) const {
    double sum = 0;
    for (const Operation& each : operations_) {
      const auto predicted = predicted_us(world_.explain(each));
      if (!predicted) return;
      sum += *predicted;
    }
    complain("perf", calls_text(calls_) + ":" + prediction_text(sum, measured.measured.time_us, options_.mapped));
  }

  Result<ModelStep> measure() {
    ModelStep result;
    result.kind = calls_;
    result.calls = calls_ == Calls::grouped ? 1 : operations_.size();
    Measurement& measured = result.measured;
    for (const Operation& each : operations_) measured.count += each.count;
    measured.bytes = measured.count * size_of(options_.type);
    measured.in_place = true;
    measured.algorithm = algorithms();
    if (options_.check) FABRING_TRY(check(measured.wrong));
    for (const Operation& each : operations_) fill_stable(on_host(each), each.count, each.type, each.reduction.op());
    FABRING_TRY(gradients_.upload());
    for (int i = 0; i < options_.warm_up; ++i) FABRING_TRY(step());
    const auto slowest = time_calls(
        stopwatch_, [this] { return step(); }, options_, true, measured);
    if (!slowest) return slowest.error();
    result.slowest_rank = *slowest;
    return result;
  }

 private:
  /// Those of all calls, each once, the first one's first.
  std::string algorithms() const {
    std::vector<std::string> used;
    for (const Operation& each : operations_) {
      const std::string algorithm = world_.explain(each).algorithm;
      if (std::find(used.begin(), used.end(), algorithm) == used.end()) used.push_back(algorithm);
    }
    return fmt::format("{}", fmt::join(used, "+"));
  }

  Reduction reduction() const {
    return options_.op == ReduceOp::premul_sum ? Reduction::premul_sum(ExactData::premul_factor)
                                               : Reduction(options_.op);
  }

  std::byte* on_host(const Operation& operation) const {
    auto* const at = static_cast<std::byte*>(operation.out);
    return gradients_.on_device != nullptr ? gradients_.on_host.get() + (at - gradients_.on_device) : at;
  }

  Status step() {
    if (calls_ == Calls::grouped) return world_.grouped_allreduce(tensors_, options_.type, reduction());
    if (calls_ == Calls::in_turn) {
      for (const Operation& each : operations_) FABRING_TRY(world_.run(each));
      return {};
    }
    works_.clear();
    for (const Operation& each : operations_) works_.push_back(world_.start(each));
    Status first;
    for (Work& work : works_)  // all of them, also after an error: the buffers are theirs until then
      if (Status done = work.wait(); !done.ok() && first.ok()) first = std::move(done);
    return first;
  }

  // Every bucket has data of its own, so that one in the place of another is seen.
  Status check(std::uint64_t& wrong) {
    if (wire_type_)
      return check(wrong, [this](std::size_t bucket) {
        return RoughData(*wire_type_, options_.op, world_.rank(), world_.size(),
                         static_cast<std::uint32_t>(bucket) + 1);
      });
    return check(wrong, [this](std::size_t bucket) {
      return ExactData(options_.type, options_.op, world_.rank(), world_.size(),
                       static_cast<std::uint32_t>(bucket) + 1);
    });
  }

  template <class Data>
  Status check(std::uint64_t& wrong, Data&& data) {
    for (std::size_t i = 0; i < operations_.size(); ++i) data(i).fill(on_host(operations_[i]), operations_[i].count);
    FABRING_TRY(gradients_.upload());
    FABRING_TRY(step());
    FABRING_TRY(gradients_.download());
    std::uint64_t mine = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i)
      mine += data(i).wrong_results(on_host(operations_[i]), operations_[i].count);
    return world_.allreduce(&mine, &wrong, 1, DataType::uint64, ReduceOp::sum);
  }

  Communicator world_;
  Stopwatch stopwatch_;
  const PerfOptions& options_;
  const Calls calls_;
  const std::optional<DataType> wire_type_;
  const Gradients& gradients_;
  std::vector<Operation> operations_;
  std::vector<Tensor> tensors_;  // the same, as one operation
  std::vector<Work> works_;
};

}  // namespace

Result<std::uint64_t> measure_model(PerfJob& job) {
  const PerfOptions& options = job.options();
  const auto gradients = model_gradients(options.model);
  if (!gradients) return gradients.error();
  const std::size_t element = size_of(options.type);
  const std::uint64_t elements = total_elements(*gradients);
  const auto memory = make_gradients(job, elements * element);
  if (!memory) return memory.error();
  const ModelReport report(options, job.facts(), {gradients->size(), elements});
  job.write(report.header());
  std::uint64_t wrong = 0;
  bool first = true;
  for (const Calls calls : {Calls::buckets, Calls::together, Calls::in_turn, Calls::grouped}) {
    const std::size_t bucket = calls == Calls::buckets ? options.bucket : 0;
    job.tell_progress(fmt::format("now {}", bucket > 0 ? "buckets of " + size_text(bucket) : calls_text(calls)));
    Replay replay(job, *memory, fused_buckets(*gradients, element, bucket), calls);
    const bool explains = options.explain && job.writes();
    if (explains && (calls == Calls::buckets || calls == Calls::together)) replay.explain();
    auto step = replay.measure();
    if (!step) return step.error();
    if (explains && calls == Calls::in_turn) replay.explain(*step);
    if (job.writes()) tell_fewer_repetitions(step->measured, options, calls_text(calls));
    step->bucket = bucket;
    wrong += step->measured.wrong;
    job.write(report.row(*step, first));
    first = false;
  }
  job.write(report.footer());
  FABRING_TRY(job.finish());
  return wrong;
}

}  // namespace fabring::tools
