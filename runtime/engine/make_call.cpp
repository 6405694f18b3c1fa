#include "runtime/engine/make_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "collectives/reduce/convert.hpp"

namespace fabring {
namespace {

// What this rank's buffers must look like, once the lengths are known.
struct Needs {
  std::size_t in = 0;  // elements that the input spans; 0: not used here
  std::size_t out = 0;
  bool in_place = false;         // is there a place for the one in the other?
  std::ptrdiff_t out_in_in = 0;  // elements from `in` to `out` when in place
};

class Maker {
 public:
  Maker(const Operation& operation, const CommunicatorCore& communicator, const Config& config, DeviceRuntime* devices,
        Call& call)
      : operation_(operation),
        communicator_(communicator),
        config_(config),
        ranks_(static_cast<std::size_t>(communicator.size())),
        devices_(devices),
        call_(call) {}

  Status make() {
    FABRING_TRY(take_kind());
    FABRING_TRY(operation_.by_blocks ? take_blocks() : take_count());
    if (!operation_.tensors.empty()) FABRING_TRY(take_tensors());
    return operation_.wire_type || config_.wire_type ? take_wire_type() : Status();
  }
  Status take_buffers() {
    if (!operation_.tensors.empty()) {
      if (operation_.memory == Memory::device || uses_devices(operation_, devices_))
        return wrong("tensors in memory of a GPU cannot be one operation; start them as a group of operations",
                     ErrorCode::unsupported);
      return check_tensors();
    }
    FABRING_TRY(take_buffers(what_is_needed()));
    if (call_.device.any() && call_.wire_type)
      return wrong(
          "elements in memory of a GPU cannot travel as another type; FABRING_WIRE_TYPE and wire_type are for the "
          "host's memory",
          ErrorCode::unsupported);
    return {};
  }
  Status mark() {
    const Status marked = mark_stream(call_, *devices_);
    return marked.ok() ? marked : wrong(marked.message(), marked.code());
  }

 private:
  Status wrong(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) const {
    return Status(
        code, fmt::format("{} on '{}', rank {}: {}", call_.describe(), communicator_.label, communicator_.self, what));
  }

  Status take_kind() {
    const Operation& from = operation_;
    if (static_cast<int>(from.collective) >= collective_count)
      return Status(ErrorCode::invalid_argument, fmt::format("there is no collective {}", int(from.collective)));
    call_.collective = from.collective;
    call_.count = from.count;
    call_.type = from.type;
    call_.op = from.reduction.op();
    call_.root = from.root;
    call_.tag = from.tag;
    call_.timeout = from.timeout;
    if (call_.timeout < std::chrono::nanoseconds(0)) return wrong("its timeout is negative; 0 means FABRING_TIMEOUT");
    if (static_cast<int>(call_.type) >= data_type_count) return wrong("no such type");
    if (from.collective == Collective::barrier) call_.type = DataType::uint8;
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
    if (static_cast<int>(call_.op) >= reduce_op_count) return wrong("no such operation");
    if (!supports(call_.type, call_.op))
      return wrong(fmt::format("{} of {} elements has no meaning; docs/algorithms.md has the table", name(call_.op),
                               name(call_.type)),
                   ErrorCode::unsupported);
    const Reduction& reduction = operation_.reduction;
    call_.commutes = reduction.commutes();
    if (call_.op == ReduceOp::user) {
      if (reduction.function() == nullptr) return wrong("the function of the user-defined operation is null");
      call_.function = reduction.function();
      call_.context = reduction.context();
    }
    if (call_.op == ReduceOp::premul_sum) take_factor(reduction);
    return {};
  }

  template <class T>
  void set_factor(T factor) {
    std::memcpy(call_.factor.data(), &factor, sizeof factor);
  }

  void take_factor(const Reduction& reduction) {
    const std::int64_t whole = reduction.whole_factor();
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
      case DataType::uint64:
        return set_factor(whole);
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

  // Lengths and places of n blocks; `places` gets them at [at, at + n).
  Status take_blocks(const Blocks& from, const char* of_what, bool writes, std::vector<std::size_t>& places) {
    if (from.counts.size() != ranks_)
      return wrong(fmt::format("{} lengths of blocks {} for {} ranks", from.counts.size(), of_what, ranks_));
    if (!from.offsets.empty() && from.offsets.size() != ranks_)
      return wrong(fmt::format("{} places of blocks {} for {} ranks; none means one after the other",
                               from.offsets.size(), of_what, ranks_));
    std::size_t next = 0;
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (std::size_t i = 0; i < ranks_; ++i) {
      const std::size_t count = from.counts[i];
      const std::size_t offset = from.offsets.empty() ? next : from.offsets[i];
      if (count > most_elements() || offset > most_elements() - count)
        return wrong(fmt::format("block {} {} ends beyond what memory can hold", i, of_what));
      next = offset + count;
      call_.counts.push_back(count);
      places.push_back(offset);
      if (writes && count > 0) taken.emplace_back(offset, offset + count);
    }
    std::sort(taken.begin(), taken.end());
    for (std::size_t i = 1; i < taken.size(); ++i)
      if (taken[i].first < taken[i - 1].second)
        return wrong(fmt::format("blocks {} overlap at element {}", of_what, taken[i].first));
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
        return wrong("has no form with blocks of different lengths");
    }
  }

  // Elements from the start of the buffer to the end of its last block.
  std::size_t span_of(const std::vector<std::size_t>& places, std::size_t first) const {
    std::size_t end = 0;
    for (std::size_t i = first; i < places.size(); ++i)
      if (call_.counts[i] > 0) end = std::max(end, places[i] + call_.counts[i]);
    return end;
  }

  Needs what_is_needed() const {
    const auto self = static_cast<std::size_t>(communicator_.self);
    const bool v = !call_.counts.empty();
    const bool root = call_.root == communicator_.self;
    const std::size_t own = v ? call_.counts[self] : call_.count;
    const auto own_place = [&](const std::vector<std::size_t>& places) {
      return static_cast<std::ptrdiff_t>(v ? places[self] : self * call_.count);
    };
    const std::size_t all = call_.count * ranks_;
    Needs needs;
    switch (call_.collective) {
      case Collective::allreduce:
        return {call_.count, call_.count, true, 0};
      case Collective::reduce:
        return {call_.count, root ? call_.count : 0, true, 0};
      case Collective::broadcast:
        return {root ? call_.count : 0, call_.count, true, 0};
      case Collective::reduce_scatter:
        return {v ? span_of(call_.in_offsets, 0) : all, own, true, own_place(call_.in_offsets)};
      case Collective::all_gather:
        return {own, v ? span_of(call_.out_offsets, 0) : all, true, -own_place(call_.out_offsets)};
      case Collective::gather:
        if (!root) return {own, 0, false, 0};
        return {own, v ? span_of(call_.out_offsets, 0) : all, true, -own_place(call_.out_offsets)};
      case Collective::scatter:
        if (!root) return {0, own, false, 0};
        return {v ? span_of(call_.in_offsets, 0) : all, own, true, own_place(call_.in_offsets)};
      case Collective::alltoall:
        needs.in = v ? span_of(call_.in_offsets, 0) : all;
        needs.out = v ? span_of(call_.out_offsets, ranks_) : all;
        return needs;
      case Collective::send:
        needs.in = call_.count;
        return needs;
      case Collective::recv:
        needs.out = call_.count;
        return needs;
      case Collective::barrier:
        return needs;
    }
    return needs;
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

  // Each for itself: that different tensors do not overlap would cost a sort.
  Status check_tensors() const {
    const std::size_t element = size_of(call_.type);
    for (const Tensor& tensor : *call_.tensors) {
      if (tensor.count == 0) continue;
      const auto in = reinterpret_cast<std::uintptr_t>(tensor.in), out = reinterpret_cast<std::uintptr_t>(tensor.out);
      const std::size_t bytes = tensor.count * element;
      const char* what = nullptr;
      if (in == 0 || out == 0)
        what = in == 0 ? "its input is null" : "its output is null";
      else if (in % element != 0 || out % element != 0)
        what = "a buffer of it is not aligned to its elements";
      else if (in != out && in < out + bytes && out < in + bytes)
        what = "its input and output overlap; pass the same pointer for both, or buffers that do not overlap";
      if (what != nullptr) return wrong(fmt::format("tensor {}: {}", &tensor - call_.tensors->data(), what));
    }
    return {};
  }

  // What an operation asks for must be possible; what the setting says is for those that can.
  Status take_wire_type() {
    const bool asked = operation_.wire_type.has_value();
    if (!asked && call_.collective != Collective::allreduce) return {};
    const DataType wire = asked ? *operation_.wire_type : *config_.wire_type;
    if (static_cast<int>(wire) >= data_type_count) return wrong("no such wire type");
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

  Status take_buffers(const Needs& needs) {
    const std::size_t element = size_of(call_.type);
    const auto aligned = [&](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % element == 0; };
    if (needs.in > 0) {
      if (operation_.in == nullptr) return wrong("the input is null");
      if (!aligned(operation_.in)) return wrong(fmt::format("the input is not aligned to {} bytes", element));
      call_.in = static_cast<const std::byte*>(operation_.in);
    }
    if (needs.out > 0) {
      if (operation_.out == nullptr) return wrong("the output is null");
      if (!aligned(operation_.out)) return wrong(fmt::format("the output is not aligned to {} bytes", element));
      call_.out = static_cast<std::byte*>(operation_.out);
    }
    FABRING_TRY(find_devices(needs));
    if (needs.in == 0 || needs.out == 0) return {};
    const auto in = reinterpret_cast<std::uintptr_t>(call_.in);
    const auto out = reinterpret_cast<std::uintptr_t>(call_.out);
    if (in + needs.in * element <= out || out + needs.out * element <= in) return {};
    if (call_.collective == Collective::alltoall && in == out) {
      if (!call_.device.any()) return copy_input(needs.in * element);
      // A tile's part of every block is read before any of it is written.
      if (same_layout()) return {};
      return wrong("blocks of different lengths in place are not possible in memory of a GPU; pass another output",
                   ErrorCode::unsupported);
    }
    const auto place = in + static_cast<std::uintptr_t>(needs.out_in_in * static_cast<std::ptrdiff_t>(element));
    if (needs.in_place && place == out) return {};
    if (call_.collective == Collective::allreduce || call_.collective == Collective::reduce ||
        call_.collective == Collective::broadcast || call_.collective == Collective::alltoall)
      return wrong("input and output overlap; pass the same pointer for both, or buffers that do not overlap");
    return wrong(fmt::format("input and output overlap; in place, the output must be {} elements after the input",
                             needs.out_in_in));
  }

  bool same_layout() const {
    const auto half = static_cast<std::ptrdiff_t>(call_.counts.size() / 2);
    const auto out_at = static_cast<std::ptrdiff_t>(call_.in_offsets.size());
    return call_.counts.empty() ||
           (std::equal(call_.counts.begin(), call_.counts.begin() + half, call_.counts.begin() + half) &&
            std::equal(call_.in_offsets.begin(), call_.in_offsets.end(), call_.out_offsets.begin() + out_at));
  }

  Result<int> device_of(const char* what, const void* at, std::size_t bytes) const {
    if (operation_.memory == Memory::device) return operation_.device;
    const auto found = devices_->look_up(at);
    if (!found) return wrong(fmt::format("the {}: {}", what, found.error().message()), found.error().code());
    if (found->kind == MemoryKind::host) return -1;
    const auto* const first = static_cast<const std::byte*>(at);
    if (found->base != nullptr && first + bytes > found->base + found->bytes)
      return wrong(fmt::format("the {} of {} bytes goes {} beyond the end of its allocation on GPU {}", what, bytes,
                               first + bytes - (found->base + found->bytes), found->device));
    return found->device;
  }

  Status find_devices(const Needs& needs) {
    call_.device = {};  // of the buffers before these
    if (operation_.memory == Memory::device) {
      if (devices_ == nullptr)
        return wrong("memory of a GPU, but this Fabring was built without CUDA (FABRING_WITH_CUDA=OFF)",
                     ErrorCode::unsupported);
      if (operation_.device < 0)
        return wrong(fmt::format("there is no GPU {}; say which one the buffers are of", operation_.device));
    }
    if (operation_.memory == Memory::host || devices_ == nullptr) return {};
    if (operation_.memory == Memory::detect && !devices_->in_use()) return {};
    const std::size_t element = size_of(call_.type);
    if (needs.in > 0) {
      const auto device = device_of("input", call_.in, needs.in * element);
      if (!device) return device.error();
      call_.device.in = *device;
    }
    if (needs.out > 0) {
      const auto device = device_of("output", call_.out, needs.out * element);
      if (!device) return device.error();
      call_.device.out = *device;
    }
    call_.device.stream = operation_.stream;
    return {};
  }

  Status copy_input(std::size_t bytes) {
    call_.owned.reset(new (std::nothrow) std::byte[bytes]);
    if (!call_.owned)
      return wrong(
          fmt::format("in place it needs {} bytes for a copy of the input, which this machine does not have", bytes),
          ErrorCode::out_of_memory);
    std::memcpy(call_.owned.get(), call_.in, bytes);
    call_.in = call_.owned.get();
    return {};
  }

  const Operation& operation_;
  const CommunicatorCore& communicator_;
  const Config& config_;
  const std::size_t ranks_;
  DeviceRuntime* const devices_;
  Call& call_;
};

Status choose_for(Call& call, const CommunicatorCore& communicator, const ChoiceTable& choices, const Config& config) {
  if (is_message(call.collective)) return {};
  const Chosen chosen = choices.choose(call.collective, call.carried_bytes(), constraints_of(call, config));
  if (chosen.reason == ChoiceReason::nothing_fits)
    return Status(ErrorCode::unsupported,
                  fmt::format("{} on '{}': no algorithm can do this{}{}", call.describe(), communicator.label,
                              config.reproducible ? " with FABRING_REPRODUCIBLE" : "",
                              call.commutes ? "" : " with an operation that does not commute"));
  call.algorithm = chosen.algorithm;
  return {};
}

}  // namespace

Constraints constraints_of(const Call& call, const Config& config) {
  Constraints constraints;
  constraints.ordered = reduces(call.collective) && !call.commutes;
  constraints.reproducible = reduces(call.collective) && config.reproducible;
  constraints.unequal_blocks = !call.counts.empty();
  return constraints;
}

Result<Call> make_call(const Operation& operation, const CommunicatorCore& communicator, const ChoiceTable& choices,
                       const Config& config, DeviceRuntime* devices) {
  Result<Call> call{Call()};
  Maker maker(operation, communicator, config, devices, *call);
  FABRING_TRY(maker.make());
  FABRING_TRY(maker.take_buffers());
  FABRING_TRY(choose_for(*call, communicator, choices, config));
  if (call->device.any()) FABRING_TRY(maker.mark());
  return call;
}

bool uses_devices(const Operation& operation, DeviceRuntime* devices) {
  if (devices == nullptr || operation.memory == Memory::host) return false;
  if (operation.memory == Memory::device) return true;
  const auto on_device = [&](const void* at) {
    if (at == nullptr || !devices->in_use()) return false;
    const auto facts = devices->look_up(at);
    return facts.has_value() && facts->kind != MemoryKind::host;
  };
  return on_device(operation.in) || on_device(operation.out) ||
         std::any_of(operation.tensors.begin(), operation.tensors.end(),
                     [&](const Tensor& tensor) { return on_device(tensor.in) || on_device(tensor.out); });
}

Status mark_stream(Call& call, DeviceRuntime& devices) {
  auto event = devices.record(call.device.in >= 0 ? call.device.in : call.device.out, call.device.stream);
  if (!event) return event.error();
  call.device.ready = std::move(*event);
  return {};
}

Result<Call> make_call_without_buffers(const Operation& operation, const CommunicatorCore& communicator,
                                       const ChoiceTable& choices, const Config& config) {
  Result<Call> call{Call()};
  FABRING_TRY(Maker(operation, communicator, config, nullptr, *call).make());
  FABRING_TRY(choose_for(*call, communicator, choices, config));
  return call;
}

Status rebind(Call& call, const Operation& operation, const CommunicatorCore& communicator, const Config& config,
              DeviceRuntime* devices) {
  return Maker(operation, communicator, config, devices, call).take_buffers();
}

}  // namespace fabring
