#include "runtime/engine/call/call_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "runtime/engine/call/buffer_needs.hpp"
#include "runtime/engine/call/make_call.hpp"
#include "runtime/engine/call/tensor_overlap.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

class Buffers {
 public:
  Buffers(Call& call, const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices)
      : operation_(operation),
        communicator_(communicator),
        ranks_(static_cast<std::size_t>(communicator.size())),
        devices_(devices),
        call_(call) {}

  Status take() {
    if (operation_.tensors.empty()) return take(buffer_needs(call_, communicator_.self, communicator_.size()));
    FABRING_TRY(check_tensors());
    return find_tensors();
  }

 private:
  Status wrong(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) const {
    return wrong_call(call_, communicator_, what, code);
  }

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
    if (const auto two = overlapping(*call_.tensors, element))
      return wrong(fmt::format("tensors {} and {} overlap; list a shared tensor once", two->first, two->second));
    return {};
  }

  Status take(const BufferNeeds& needs) {
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
      if (!call_.device.any()) return make_room_for_copy(needs.in * element);
      // A tile's part of every block is read before any of it is written.
      if (same_layout()) return {};
      return wrong("blocks of different lengths in place are not possible in memory of a GPU; pass another output",
                   ErrorCode::unsupported);
    }
    const auto place = in + static_cast<std::uintptr_t>(needs.out_in_in * static_cast<std::ptrdiff_t>(element));
    if (needs.in_place && place == out) return check_result_in_input();
    if (call_.collective == Collective::allreduce || call_.collective == Collective::reduce ||
        call_.collective == Collective::broadcast || call_.collective == Collective::alltoall)
      return wrong("input and output overlap; pass the same pointer for both, or buffers that do not overlap");
    return wrong(fmt::format("input and output overlap; in place, the output must be {} elements after the input",
                             needs.out_in_in));
  }

  // Blocks of what is only read may overlap, but not with the one that becomes the result.
  Status check_result_in_input() const {
    if (call_.collective != Collective::reduce_scatter || call_.counts.empty()) return {};
    const auto self = static_cast<std::size_t>(communicator_.self);
    const auto end = [&](std::size_t block) { return call_.in_offsets[block] + call_.counts[block]; };
    for (std::size_t block = 0; block < ranks_; ++block)
      if (block != self && call_.counts[block] > 0 && call_.in_offsets[block] < end(self) &&
          call_.in_offsets[self] < end(block))
        return wrong(
            fmt::format("in place, block {} of the input would be overwritten: it overlaps block {}, where the "
                        "result goes; pass another output",
                        block, self));
    return {};
  }

  bool same_layout() const {
    const auto half = static_cast<std::ptrdiff_t>(call_.counts.size() / 2);
    const auto out_at = static_cast<std::ptrdiff_t>(call_.in_offsets.size());
    return call_.counts.empty() ||
           (std::equal(call_.counts.begin(), call_.counts.begin() + half, call_.counts.begin() + half) &&
            std::equal(call_.in_offsets.begin(), call_.in_offsets.end(), call_.out_offsets.begin() + out_at));
  }

  Result<int> device_of(std::string_view what, const void* at, std::size_t bytes) const {
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

  Status check_memory() const {
    if (operation_.memory > Memory::device)
      return wrong(fmt::format("there is no kind of memory {}; they are 0 to {}", static_cast<int>(operation_.memory),
                               static_cast<int>(Memory::device)));
    if (operation_.memory != Memory::device) return {};
    if (devices_ == nullptr)
      return wrong("memory of a GPU, but this Fabring was built without CUDA (FABRING_WITH_CUDA=OFF)",
                   ErrorCode::unsupported);
    if (operation_.device < 0)
      return wrong(fmt::format("there is no GPU {}; say which one the buffers are of", operation_.device));
    return {};
  }

  bool may_be_on_device() const {
    return operation_.memory != Memory::host && devices_ != nullptr &&
           (operation_.memory == Memory::device || devices_->looks_up());
  }

  // Those on a GPU are staged with the copies of one queue for each direction: they are all of one.
  Status find_tensors() {
    call_.device = {};
    FABRING_TRY(check_memory());
    if (!may_be_on_device()) return {};
    const std::size_t element = size_of(call_.type);
    auto found = std::make_shared<TensorsOnDevice>();
    const auto look = [&](const char* side, const void* at, std::size_t number, std::size_t bytes, int& whose,
                          std::vector<bool>& on_device) -> Status {
      const auto device =
          bytes == 0 ? Result<int>(-1) : device_of(fmt::format("{} of tensor {}", side, number), at, bytes);
      if (!device) return device.error();
      on_device.push_back(*device >= 0);
      if (*device < 0) return {};
      const int other = whose >= 0 ? whose : std::max(call_.device.in, call_.device.out);
      if (other >= 0 && other != *device)
        return wrong(fmt::format("the {} of tensor {} is on GPU {}, that of others on GPU {}; make an operation of "
                                 "the tensors of each GPU",
                                 side, number, *device, other),
                     ErrorCode::unsupported);
      whose = *device;
      return {};
    };
    for (std::size_t i = 0; i < call_.tensors->size(); ++i) {
      const Tensor& tensor = (*call_.tensors)[i];
      FABRING_TRY(look("input", tensor.in, i, tensor.count * element, call_.device.in, found->in));
      FABRING_TRY(look("output", tensor.out, i, tensor.count * element, call_.device.out, found->out));
    }
    call_.device.stream = operation_.stream;
    if (call_.device.any()) call_.device.tensors = std::move(found);
    return {};
  }

  Status find_devices(const BufferNeeds& needs) {
    call_.device = {};  // of the buffers before these
    FABRING_TRY(check_memory());
    if (!may_be_on_device()) return {};
    const std::size_t element = size_of(call_.type);
    call_.device.in_bytes = needs.in * element;
    call_.device.out_bytes = needs.out * element;
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

  Status make_room_for_copy(std::size_t bytes) {
    const auto engine = communicator_.engine.lock();
    call_.owned = engine ? engine->input_copies().make(bytes) : InputCopies().make(bytes);
    if (!call_.owned)
      return wrong(
          fmt::format("in place it needs {} bytes for a copy of the input, which this machine does not have", bytes),
          ErrorCode::out_of_memory);
    call_.uncopied = call_.in;
    call_.uncopied_bytes = bytes;
    call_.in = call_.owned.get();
    return {};
  }

  const Operation& operation_;
  const CommunicatorCore& communicator_;
  const std::size_t ranks_;
  DeviceRuntime* const devices_;
  Call& call_;
};

// The default stream of each of two GPUs.
class InBothStreams final : public DeviceEvent {
 public:
  InBothStreams(std::unique_ptr<DeviceEvent> one, std::unique_ptr<DeviceEvent> other)
      : one_(std::move(one)), other_(std::move(other)) {}
  Result<bool> reached() override {
    const auto first = one_->reached();
    return first && *first ? other_->reached() : first;
  }

 private:
  const std::unique_ptr<DeviceEvent> one_, other_;
};

}  // namespace

Status take_buffers(Call& call, const Operation& operation, const CommunicatorCore& communicator,
                    DeviceRuntime* devices) {
  return Buffers(call, operation, communicator, devices).take();
}

bool uses_devices(const Operation& operation, DeviceRuntime* devices) {
  if (devices == nullptr || operation.memory == Memory::host) return false;
  if (operation.memory == Memory::device) return true;
  const auto on_device = [&](const void* at) {
    if (at == nullptr || !devices->looks_up()) return false;
    const auto facts = devices->look_up(at);
    return facts.has_value() && facts->kind != MemoryKind::host;
  };
  return on_device(operation.in) || on_device(operation.out) ||
         std::any_of(operation.tensors.begin(), operation.tensors.end(),
                     [&](const Tensor& tensor) { return on_device(tensor.in) || on_device(tensor.out); });
}

Status mark_stream(Call& call, DeviceRuntime& devices) {
  const int in = call.device.in, out = call.device.out;
  void* const stream = call.device.stream;
  auto event = devices.record(in >= 0 ? in : out, stream);
  if (!event) return event.error();
  if (in >= 0 && out >= 0 && in != out && is_default_stream(stream)) {
    auto other = devices.record(out, stream);
    if (!other) return other.error();
    *event = std::make_unique<InBothStreams>(std::move(*event), std::move(*other));
  }
  call.device.ready = std::move(*event);
  return {};
}

}  // namespace fabring
