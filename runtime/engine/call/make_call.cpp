#include "runtime/engine/call/make_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/reduce/convert.hpp"
#include "runtime/engine/call/call_buffers.hpp"

namespace fabring {
namespace {

Status refused_call(const Call& call, const CommunicatorCore& communicator, std::string_view text,
                    const std::string& what, ErrorCode code = ErrorCode::invalid_argument) {
  ErrorContext context = own_fault(communicator, name(call.collective));
  if (call.count <= std::numeric_limits<std::size_t>::max() / call.data_blocks / size_of(call.type))
    context.bytes = call.bytes();
  return Status(code,
                fmt::format("{} on '{}', rank {}{}: {}", text, communicator.label, communicator.self,
                            communicator.in_the_job(communicator.self), what),
                std::move(context));
}

class Maker {
 public:
  Maker(const Operation& operation, const CommunicatorCore& communicator, const Config& config, Call& call)
      : operation_(operation),
        communicator_(communicator),
        config_(config),
        ranks_(static_cast<std::size_t>(communicator.size())),
        call_(call) {}

  Status make() {
    FABRING_TRY(take_kind());
    FABRING_TRY(operation_.by_blocks ? take_blocks() : take_count());
    if (!operation_.tensors.empty()) FABRING_TRY(take_tensors());
    return operation_.wire_type || config_.wire_type ? take_wire_type() : Status();
  }

 private:
  Status wrong(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) const {
    return wrong_call(call_, communicator_, what, code);
  }

  Status no_such(std::string_view call, const char* what, int number, int numbers) const {
    return refused_call(call_, communicator_, call,
                        fmt::format("there is no {} {}; they are 0 to {}", what, number, numbers - 1));
  }

  Status take_kind() {
    const Operation& from = operation_;
    // Before anything describes it.
    if (static_cast<int>(from.collective) >= collective_count)
      return Status(ErrorCode::invalid_argument,
                    fmt::format("an operation on '{}', rank {}{}: there is no collective {}; they are 0 to {}",
                                communicator_.label, communicator_.self, communicator_.in_the_job(communicator_.self),
                                static_cast<int>(from.collective), collective_count - 1),
                    own_fault(communicator_, {}));
    call_.collective = from.collective;
    const DataType type = from.collective == Collective::barrier ? DataType::uint8 : from.type;
    if (static_cast<int>(type) >= data_type_count)
      return no_such(name(from.collective), "data type", static_cast<int>(type), data_type_count);
    call_.count = from.count;
    call_.type = type;
    call_.op = from.reduction.op();
    call_.root = from.root;
    call_.tag = from.tag;
    call_.timeout = from.timeout;
    if (call_.timeout < std::chrono::nanoseconds(0)) return wrong("its timeout is negative; 0 means FABRING_TIMEOUT");
    if (!reduces(call_.collective)) {
      call_.op = ReduceOp::sum;
    } else {
      FABRING_TRY(take_reduction());
    }
    const auto is_rank = [&](Rank rank) { return rank >= 0 && rank < communicator_.size(); };
    if (has_root(call_.collective) && !is_rank(call_.root))
      return wrong(fmt::format("there is no root {}; ranks are 0 to {}", call_.root, communicator_.size() - 1));
    if (call_.collective == Collective::send) {
      if (!is_rank(call_.root))
        return wrong(
            fmt::format("there is no rank {} to send to; ranks are 0 to {}", call_.root, communicator_.size() - 1));
      if (call_.tag < 0) return wrong(fmt::format("the tag is {}; tags are 0 or more", call_.tag));
    }
    if (call_.collective == Collective::recv) {
      if (!is_rank(call_.root) && call_.root != any_source)
        return wrong(fmt::format("there is no rank {} to receive from; ranks are 0 to {}, or any_source", call_.root,
                                 communicator_.size() - 1));
      if (call_.tag < any_tag) return wrong(fmt::format("the tag is {}; tags are 0 or more, or any_tag", call_.tag));
    }
    if (!has_root(call_.collective) && !is_message(call_.collective)) call_.root = 0;
    return {};
  }

  Status take_reduction() {
    if (static_cast<int>(call_.op) >= reduce_op_count)
      return no_such(name(call_.collective), "reduction", static_cast<int>(call_.op), reduce_op_count);
    if (!supports(call_.type, call_.op))
      return wrong(fmt::format("{} of {} elements has no meaning; docs/algorithms.md has the table", name(call_.op),
                               name(call_.type)),
                   ErrorCode::unsupported);
    const Reduction& reduction = operation_.reduction;
    call_.commutes = reduction.commutes();
    if (call_.op == ReduceOp::user) {
      if (reduction.function() == nullptr)
        return wrong("its function is null: Reduction::user() gives one, in C fabring_run with the field function");
      call_.function = reduction.function();
      call_.context = reduction.context();
    }
    if (call_.op == ReduceOp::premul_sum) {
      if (!reduction.has_factor())
        return wrong(
            "its factor is missing: Reduction::premul_sum() gives one, in C fabring_run with the field factor "
            "(of integers: whole_factor)");
      take_factor(reduction);
    }
    return {};
  }

  template <class T>
  void set_factor(T factor) {
    std::memcpy(call_.factor.data(), &factor, sizeof factor);
  }

  void take_factor(const Reduction& reduction) {
    const std::int64_t whole = reduction.whole_factor();
    const double beyond = reduction.factor();  // of an integer above int64 the bits are in `whole`, of a float nothing
    switch (call_.type) {
      case DataType::float64:
        return set_factor(reduction.factor());
      case DataType::int8:
      case DataType::uint8:
        return set_factor(static_cast<std::uint8_t>(whole));
      case DataType::int16:
      case DataType::uint16:
        return set_factor(static_cast<std::uint16_t>(whole));
      case DataType::int32:
      case DataType::uint32:
        return set_factor(static_cast<std::uint32_t>(whole));
      case DataType::int64:
        return set_factor(whole);
      case DataType::uint64:
        return set_factor(whole == 0 && beyond >= 0x1p63 && beyond < 0x1p64 ? static_cast<std::uint64_t>(beyond)
                                                                            : static_cast<std::uint64_t>(whole));
      default:
        return set_factor(static_cast<float>(reduction.factor()));
    }
  }

  Status take_count() {
    if (call_.collective == Collective::barrier) call_.count = 0;
    if (block_count(call_.collective, 1) != 0) call_.data_blocks = ranks_;
    if (call_.count > most_elements() / call_.data_blocks)
      return wrong("count x size of the type is more than memory can hold");
    return {};
  }

  std::size_t most_elements() const { return std::numeric_limits<std::ptrdiff_t>::max() / size_of(call_.type); }

  // Of a call whose lengths are not all read: those that are would be taken for all.
  Status wrong_blocks(const std::string& what) {
    call_.counts.clear();
    return refused_call(call_, communicator_, fmt::format("{}_v({})", name(call_.collective), name(call_.type)), what);
  }

  // Lengths and places of n blocks, behind those that are there.
  Status take_blocks(const Blocks& from, const char* of_what, bool writes, std::vector<std::size_t>& places) {
    if (from.counts.empty())
      return wrong_blocks(fmt::format("the lengths of blocks {} are missing: {} is empty (in C: NULL)", of_what,
                                      &from == &operation_.out_blocks ? "out_counts" : "counts"));
    if (from.counts.size() != ranks_)
      return wrong_blocks(fmt::format("{} lengths of blocks {} for {} ranks", from.counts.size(), of_what, ranks_));
    if (!from.offsets.empty() && from.offsets.size() != ranks_)
      return wrong_blocks(fmt::format("{} places of blocks {} for {} ranks; none means one after the other",
                                      from.offsets.size(), of_what, ranks_));
    std::size_t next = 0;
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (std::size_t i = 0; i < ranks_; ++i) {
      const std::size_t count = from.counts[i];
      const std::size_t offset = from.offsets.empty() ? next : from.offsets[i];
      if (count > most_elements() || offset > most_elements() - count)
        return wrong_blocks(fmt::format("block {} {} ends beyond what memory can hold", i, of_what));
      next = offset + count;
      places.push_back(offset);
      if (writes && count > 0) taken.emplace_back(offset, offset + count);
    }
    std::sort(taken.begin(), taken.end());
    for (std::size_t i = 1; i < taken.size(); ++i)
      if (taken[i].first < taken[i - 1].second)
        return wrong_blocks(fmt::format("blocks {} overlap at element {}", of_what, taken[i].first));
    call_.counts.insert(call_.counts.end(), from.counts.begin(), from.counts.end());
    return {};
  }

  Status take_blocks() {
    call_.count = 0;
    switch (call_.collective) {
      case Collective::reduce_scatter:
        return take_blocks(operation_.blocks, "of the input", false, call_.in_offsets);
      case Collective::scatter: {
        const bool root = call_.root == communicator_.self;
        Blocks blocks = operation_.blocks;
        if (!root) blocks.offsets = {};
        FABRING_TRY(take_blocks(blocks, "of the input", false, call_.in_offsets));
        if (!root) call_.in_offsets.clear();
        return {};
      }
      case Collective::all_gather:
        return take_blocks(operation_.blocks, "of the output", true, call_.out_offsets);
      case Collective::gather: {
        const bool root = call_.root == communicator_.self;
        Blocks blocks = operation_.blocks;
        if (!root) blocks.offsets = {};
        FABRING_TRY(take_blocks(blocks, "of the output", root, call_.out_offsets));
        if (!root) call_.out_offsets.clear();
        return {};
      }
      case Collective::alltoall: {
        FABRING_TRY(take_blocks(operation_.blocks, "of the input", false, call_.in_offsets));
        call_.out_offsets.resize(ranks_);  // places of blocks n to 2n - 1 follow
        FABRING_TRY(take_blocks(operation_.out_blocks, "of the output", true, call_.out_offsets));
        const auto self = static_cast<std::size_t>(communicator_.self);
        if (call_.counts[self] != call_.counts[ranks_ + self])
          return wrong(fmt::format("sends {} elements to itself, but expects {}", call_.counts[self],
                                   call_.counts[ranks_ + self]));
        return {};
      }
      default:
        call_.count = operation_.count;  // as it was meant
        return wrong("it has no form with blocks of different lengths; leave counts and offsets empty (in C: NULL)");
    }
  }

  Status take_tensors() {
    if (call_.collective != Collective::allreduce || operation_.by_blocks)
      return wrong("only an allreduce takes a list of tensors");
    if (operation_.in != nullptr || operation_.out != nullptr || operation_.count != 0)
      return wrong("it has a list of tensors and besides an input, an output or a count; give one or the other");
    if (operation_.tensors.size() > std::numeric_limits<std::uint32_t>::max() / 2) return wrong("too many tensors");
    const std::size_t most = most_elements();
    for (const Tensor& tensor : operation_.tensors) {
      if (tensor.count > most - call_.count)
        return wrong(fmt::format("tensor {} ends beyond what memory can hold", &tensor - operation_.tensors.data()));
      call_.count += tensor.count;
    }
    call_.tensors = std::make_shared<const std::vector<Tensor>>(operation_.tensors.begin(), operation_.tensors.end());
    return {};
  }

  // What an operation asks for must be possible; what the setting says is for those that can.
  Status take_wire_type() {
    const bool asked = operation_.wire_type.has_value();
    if (!asked && call_.collective != Collective::allreduce) return {};
    const DataType wire = asked ? *operation_.wire_type : *config_.wire_type;
    if (static_cast<int>(wire) >= data_type_count)
      return no_such(name(call_.collective), "data type to travel as", static_cast<int>(wire), data_type_count);
    if (asked && wire == call_.type) return {};
    if (!is_narrow(wire))
      return wrong(fmt::format("elements can travel as bfloat16 or float16, but not as {}", name(wire)),
                   ErrorCode::unsupported);
    const bool adds = call_.op == ReduceOp::sum || call_.op == ReduceOp::avg || call_.op == ReduceOp::premul_sum;
    const bool reduces_here = call_.collective == Collective::allreduce || call_.collective == Collective::reduce ||
                              call_.collective == Collective::reduce_scatter;
    if (call_.type != DataType::float32 || !adds || !reduces_here)
      return asked ? wrong(fmt::format("it cannot travel as {}: that is for allreduce, reduce and reduce_scatter of "
                                       "float32 by sum, avg or premul_sum",
                                       name(wire)),
                           ErrorCode::unsupported)
                   : Status();
    if (communicator_.size() > 1) call_.wire_type = wire;  // alone, nothing travels
    return {};
  }

  const Operation& operation_;
  const CommunicatorCore& communicator_;
  const Config& config_;
  const std::size_t ranks_;
  Call& call_;
};

Status choose_for(Call& call, const CommunicatorCore& communicator, const ChoiceTable& choices, const Config& config) {
  if (is_message(call.collective)) return {};
  if (communicator.given && communicator.given->is_for(call)) {
    if (const std::string why = communicator.given->why_not(call, config); !why.empty())
      return Status(
          ErrorCode::unsupported,
          fmt::format("{} on '{}': the plans that it was given ({}) cannot do this: {}", call.describe_unchosen(),
                      communicator.label, communicator.given->plan->plan.algorithm, why),
          own_fault(communicator, name(call.collective)));
    call.given = communicator.given;
    return {};
  }
  const Chosen chosen = choices.choose(call.collective, call.choice_bytes(), constraints_of(call, config));
  if (chosen.reason == ChoiceReason::nothing_fits)
    return Status(ErrorCode::unsupported,
                  fmt::format("{} on '{}': no algorithm can do this{}{}", call.describe_unchosen(), communicator.label,
                              config.reproducible ? " with FABRING_REPRODUCIBLE" : "",
                              call.commutes ? "" : " with an operation that does not commute"),
                  own_fault(communicator, name(call.collective)));
  call.algorithm = chosen.algorithm;
  return {};
}

}  // namespace

ErrorContext own_fault(const CommunicatorCore& communicator, std::string_view collective) {
  ErrorContext context;
  context.rank = communicator.members[static_cast<std::size_t>(communicator.self)];
  context.collective = collective;
  return context;
}

Status wrong_call(const Call& call, const CommunicatorCore& communicator, const std::string& what, ErrorCode code) {
  return refused_call(call, communicator, call.describe_unchosen(), what, code);
}

Constraints constraints_of(const Call& call, const Config& config) {
  Constraints constraints;
  constraints.ordered = reduces(call.collective) && !call.commutes;
  // Nothing is rounded of whole numbers: any order gives the same bits.
  const bool exact = !is_floating_point(call.type) && call.op != ReduceOp::avg && call.op != ReduceOp::user;
  constraints.reproducible = reduces(call.collective) && config.reproducible && !exact;
  constraints.rounds_once = constraints.reproducible && size_of(call.carried()) < 4;
  constraints.unequal_blocks = !call.counts.empty();
  return constraints;
}

Result<Call> make_call(const Operation& operation, const CommunicatorCore& communicator, const ChoiceTable& choices,
                       const Config& config, DeviceRuntime* devices) {
  Result<Call> call{Call()};
  FABRING_TRY(Maker(operation, communicator, config, *call).make());
  FABRING_TRY(take_buffers(*call, operation, communicator, devices));
  FABRING_TRY(choose_for(*call, communicator, choices, config));
  if (!call->device.any()) return call;
  const Status marked = mark_stream(*call, *devices);
  return marked.ok() ? std::move(call) : wrong_call(*call, communicator, marked.message(), marked.code());
}

Result<Call> make_call_without_buffers(const Operation& operation, const CommunicatorCore& communicator,
                                       const ChoiceTable& choices, const Config& config) {
  Result<Call> call{Call()};
  FABRING_TRY(Maker(operation, communicator, config, *call).make());
  FABRING_TRY(choose_for(*call, communicator, choices, config));
  return call;
}

}  // namespace fabring
