#pragma once
// Call: an operation as it was called on a communicator, checked, with its algorithm chosen. What the others must have
// called too is its Signature, which travels with every message.

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/ownership.hpp"
#include "device/device_runtime.hpp"
#include "fabring/operation.hpp"
#include "fabring/types.hpp"
#include "runtime/transfer/wire.hpp"

namespace fabring {

struct GivenPlan;      // given_plan.hpp
struct SharedBuffers;  // device_sharing.hpp

/// Which tensors of a grouped allreduce are in memory of a GPU, by tensor.
struct TensorsOnDevice {
  std::vector<bool> in, out;
};

/// Which of a call's buffers are in memory of a GPU.
struct DeviceBuffers {
  int in = -1;  ///< whose; -1: the host's. Of tensors: whose those are that are not the host's
  int out = -1;
  std::shared_ptr<const TensorsOnDevice> tensors;  ///< null if none is
  std::size_t in_bytes = 0;                        ///< of the whole buffer, as far as this rank uses it
  std::size_t out_bytes = 0;
  std::shared_ptr<const SharedBuffers> shared;  ///< they may stay where they are; null: they are staged
  void* stream = nullptr;                       ///< of the caller
  std::shared_ptr<DeviceEvent> ready;           ///< what the stream was given before the call

  bool any() const { return in >= 0 || out >= 0; }
};

/// What a call of ours is a step of, as the program called it. The others must be at the same: one of the program's, or
/// a step of something else, may look like it.
enum class StepOf : std::uint8_t { none, split, split_by_node, duplicate, with_plans };

/// "duplicate"; "none", and "unknown" for a number that is none of them.
std::string_view name(StepOf of);

struct Call {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;  ///< elements: of the vector, or of each block
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;         ///< reduce, broadcast, gather, scatter; send: to whom; recv: from whom, or any_source
  std::int32_t tag = 0;  ///< send, recv

  // Blocks of different lengths or in unusual places; by block of the plan, empty where they are all `count` long, or
  // lie one after the other.
  std::vector<std::size_t> counts;
  std::vector<std::size_t> in_offsets;   ///< elements from `in`
  std::vector<std::size_t> out_offsets;  ///< elements from `out`

  /// A grouped allreduce: instead of `in` and `out`; `count` is of all together.
  std::shared_ptr<const std::vector<Tensor>> tensors;

  // Operations that bring something along.
  UserFunction function = nullptr;  ///< ReduceOp::user
  void* context = nullptr;
  bool commutes = true;
  std::array<std::byte, 8> factor{};  ///< ReduceOp::premul_sum: one element (float for types of 1 or 2 bytes)

  std::chrono::nanoseconds timeout{0};  ///< 0: FABRING_TIMEOUT; not part of the signature

  DeviceBuffers device;  ///< local: the others need not know

  std::shared_ptr<std::byte[]> owned;  ///< memory that must live as long as the operation
  /// What `in`, which is `owned`, is to be a copy of when the operation begins: until then one that was called before
  /// may write it. Null: it is one, or needs not be.
  const std::byte* uncopied = nullptr;
  std::size_t uncopied_bytes = 0;
  /// The operation begins.
  void copy_input();

  StepOf step_of = StepOf::none;
  /// What the program called: the collective, or what this is a step of.
  std::string_view called() const { return step_of == StepOf::none ? name(collective) : name(step_of); }

  /// Instead of those of `algorithm`.
  std::shared_ptr<const GivenPlan> given;

  /// What elements travel and are reduced as, if not as `type`: rounded to it before anything else, and widened at the
  /// end.
  std::optional<DataType> wire_type;
  /// The type of the plan's operands.
  DataType carried() const { return wire_type.value_or(type); }

  /// Of the data as a whole: the vector, or all blocks of the larger side.
  std::size_t bytes() const;
  std::size_t carried_bytes() const { return bytes() / size_of(type) * size_of(carried()); }
  /// The same, of which its algorithm is chosen: only what all ranks know alike, or they would choose different ones. 0
  /// where they know the lengths by pairs only.
  std::size_t choice_bytes() const;
  std::size_t data_blocks = 1;  ///< how many blocks of `count` elements these are

  Signature signature() const;
  std::string describe() const;           // "allreduce(1048576 x float32, sum, ring)"
  std::string describe_unchosen() const;  ///< the same before an algorithm was chosen: without one
};

/// The fields may come from a peer: any value is described.
std::string describe(const Signature& signature);

/// That of a message of this call from or to a member: the length between the two where only they know it.
/// `kind`: of what the member sent; a grant is for what goes there.
Signature signature_towards(const Call& call, int size, Rank member, RecordKind kind);

/// What two calls whose descriptions are the same differ in; empty where the descriptions tell.
std::string describe_difference(Signature a, const Signature& b);

constexpr bool is_message(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

/// Did both call the same? Lengths of blocks that only two ranks share are compared message by message instead.
bool same_call(const Signature& a, const Signature& b);

/// Only the two ranks of a message know its length.
inline bool lengths_by_pair(const Call& call) {
  return call.collective == Collective::alltoall && !call.counts.empty();
}

}  // namespace fabring
