#pragma once
// Operation: what a rank asks of a communicator, as a value: run it, start it, prepare it to be started many times, or
// hand over several as a group. Communicator's named functions are short forms.
//
//   Status done = world.run(Operation::broadcast(weights, weights, count, DataType::float32, /*root=*/0));
//   done = world.run_group({{Operation::send(out, n, type, right), Operation::recv(in, n, type, left)}});

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fabring/types.hpp"

namespace fabring {

/// recv from whoever sends first; recv whatever the tag.
inline constexpr Rank any_source = -1;
inline constexpr std::int32_t any_tag = -1;

/// How the elements of all ranks become one. A ReduceOp is one, but for premul_sum and user, which need what their
/// functions take.
class Reduction {
 public:
  Reduction(ReduceOp op) : op_(op) {}  // NOLINT: a ReduceOp is a Reduction

  /// The sum of factor * x over the ranks, each with a factor of its own. The factor is converted to the type first, as
  /// C++ converts (for floats of one or two bytes: to float); for integers it must fit int64, or uint64 if they are of
  /// that type, otherwise it is 0. The product is rounded to the type.
  template <std::floating_point T>
  static Reduction premul_sum(T factor) {
    Reduction reduction(ReduceOp::premul_sum);
    reduction.has_factor_ = true;
    reduction.factor_ = static_cast<double>(factor);
    const bool fits = factor >= T(-9223372036854775808.0) && factor < T(9223372036854775808.0);  // false for NaN
    reduction.whole_factor_ = fits ? static_cast<std::int64_t>(factor) : 0;
    return reduction;
  }
  template <std::integral T>
  static Reduction premul_sum(T factor) {
    Reduction reduction(ReduceOp::premul_sum);
    reduction.has_factor_ = true;
    reduction.factor_ = static_cast<double>(factor);
    reduction.whole_factor_ = static_cast<std::int64_t>(factor);
    return reduction;
  }

  /// An associative operation of the caller's, the same on every rank. It may be called from any thread that drives
  /// the engine, several times at once, and must not call Fabring. If it does not commute, operands come in the order
  /// of the ranks.
  static Reduction user(UserFunction function, void* context, bool commutes) {
    Reduction reduction(ReduceOp::user);
    reduction.function_ = function;
    reduction.context_ = context;
    reduction.commutes_ = commutes;
    return reduction;
  }

  ReduceOp op() const { return op_; }
  UserFunction function() const { return function_; }
  void* context() const { return context_; }
  bool commutes() const { return commutes_; }
  bool has_factor() const { return has_factor_; }  ///< Was it made by premul_sum()?
  double factor() const { return factor_; }
  std::int64_t whole_factor() const { return whole_factor_; }
  bool operator==(const Reduction&) const = default;

 private:
  ReduceOp op_;
  bool commutes_ = true;
  bool has_factor_ = false;
  UserFunction function_ = nullptr;
  void* context_ = nullptr;
  double factor_ = 1;
  std::int64_t whole_factor_ = 1;
};

/// Where n blocks, one for each rank, lie in a buffer. Elements; the spans must live until the operation is begun.
struct Blocks {
  std::span<const std::size_t> counts;   ///< n lengths
  std::span<const std::size_t> offsets;  ///< n places from the start of the buffer; empty: one after the other
};

/// Where buffers live.
enum class Memory : std::uint8_t {
  detect,  ///< the GPU driver is asked, if this process uses it: about a microsecond
  host,
  device,  ///< of Operation::device; all buffers that are used
};

/// One of the vectors of a grouped allreduce. In place: in == out.
struct Tensor {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements
};

/// `n` is the number of ranks, r the caller's rank. All ranks give the same count, type, reduction, root and lengths of
/// blocks (alltoall_v: what i sends to j is what j expects of i). Buffers are aligned to the element. In place means:
/// `in` is where this rank's part lies in `out` (or the other way round); otherwise they must not overlap. Reduction,
/// root and tag of a collective that has none, and type, count and buffers of a barrier are passed over.
struct Operation {
  Collective collective = Collective::allreduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  Reduction reduction = ReduceOp::sum;
  Rank root = 0;                        ///< the root; send: to whom; recv: from whom or any_source
  std::int32_t tag = 0;                 ///< send: 0 or more; recv: also any_tag
  bool by_blocks = false;               ///< a v-variant: lengths are in `blocks`
  Blocks blocks = {};                   ///< of the larger buffer; alltoall_v: of the input
  Blocks out_blocks = {};               ///< alltoall_v: of the output
  std::chrono::nanoseconds timeout{0};  ///< how long it may take from the call; 0: FABRING_TIMEOUT
  /// Buffers in memory of a GPU: the stream (CUstream, cudaStream_t) that the operation is ordered on. It begins after
  /// what the stream was given before the call; once the Work is done, every stream sees the result. Null: the default
  /// stream (input and output on two GPUs: of both), and with it all blocking ones.
  void* stream = nullptr;
  Memory memory = Memory::detect;
  int device = -1;  ///< Memory::device: the GPU's number in this process
  /// allreduce: these instead of `in`, `out` and `count`; the span must live until the operation is begun. Each may be
  /// in memory of the host or of a GPU, all of one GPU.
  std::span<const Tensor> tensors = {};
  /// float32 allreduce, reduce and reduce_scatter that add (sum, avg, premul_sum): elements travel as bfloat16 or
  /// float16, half the bytes. Each addition is in float32, and its sum is rounded to that type, the sum of an avg too,
  /// before it is divided: in float16 what reaches 65520 on the way is infinity. docs/algorithms.md has the bound of
  /// the error; all ranks get identical bits. float32: as they are. None: an allreduce as FABRING_WIRE_TYPE says, the
  /// others as they are. GPU memory passes through the host for it.
  std::optional<DataType> wire_type = {};

  /// out[i] = reduction over all ranks of in[i], i < count. In place: in == out.
  static Operation allreduce(const void* in, void* out, std::size_t count, DataType type, Reduction reduction) {
    return {Collective::allreduce, in, out, count, type, reduction};
  }
  /// An allreduce of each of the tensors, as one operation: small ones travel together. All ranks give as many, of the
  /// same lengths, in the same order. No output overlaps another tensor (one that is shared is listed once); inputs may
  /// overlap each other.
  static Operation grouped_allreduce(std::span<const Tensor> tensors, DataType type, Reduction reduction) {
    Operation made = allreduce(nullptr, nullptr, 0, type, reduction);
    made.tensors = tensors;
    return made;
  }
  /// An allreduce whose result is on the root only; `out` is not used elsewhere.
  static Operation reduce(const void* in, void* out, std::size_t count, DataType type, Reduction reduction, Rank root) {
    return {Collective::reduce, in, out, count, type, reduction, root};
  }
  /// in: n blocks of `count`; out: block r of the reduction. In place: out == in + r * count.
  static Operation reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction reduction) {
    return {Collective::reduce_scatter, in, out, count, type, reduction};
  }
  /// In place no other block of the input may overlap block r.
  static Operation reduce_scatter_v(const void* in, void* out, Blocks in_blocks, DataType type, Reduction reduction) {
    Operation made{Collective::reduce_scatter, in, out, 0, type, reduction};
    made.by_blocks = true;
    made.blocks = in_blocks;
    return made;
  }
  /// in: `count` elements; out: those of all ranks, n * count. In place: in == out + r * count.
  static Operation all_gather(const void* in, void* out, std::size_t count, DataType type) {
    return {Collective::all_gather, in, out, count, type};
  }
  static Operation all_gather_v(const void* in, void* out, Blocks out_blocks, DataType type) {
    Operation made{Collective::all_gather, in, out, 0, type};
    made.by_blocks = true;
    made.blocks = out_blocks;
    return made;
  }
  /// out on every rank = in on the root; `in` is not used elsewhere. In place: in == out.
  static Operation broadcast(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return {Collective::broadcast, in, out, count, type, ReduceOp::sum, root};
  }
  /// As all_gather, on the root only. `out` is not used elsewhere; offsets matter on the root only.
  static Operation gather(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return {Collective::gather, in, out, count, type, ReduceOp::sum, root};
  }
  static Operation gather_v(const void* in, void* out, Blocks out_blocks, DataType type, Rank root) {
    Operation made = gather(in, out, 0, type, root);
    made.by_blocks = true;
    made.blocks = out_blocks;
    return made;
  }
  /// out: block r of the root's in, n blocks of `count`. `in` is not used elsewhere.
  static Operation scatter(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return {Collective::scatter, in, out, count, type, ReduceOp::sum, root};
  }
  static Operation scatter_v(const void* in, void* out, Blocks in_blocks, DataType type, Rank root) {
    Operation made = scatter(in, out, 0, type, root);
    made.by_blocks = true;
    made.blocks = in_blocks;
    return made;
  }
  /// Block j of in goes to rank j; block i of out comes from rank i; `count` elements each. In place (in == out) costs
  /// a copy of the input.
  static Operation alltoall(const void* in, void* out, std::size_t count, DataType type) {
    return {Collective::alltoall, in, out, count, type};
  }
  static Operation alltoall_v(const void* in, Blocks in_blocks, void* out, Blocks out_blocks, DataType type) {
    Operation made{Collective::alltoall, in, out, 0, type};
    made.by_blocks = true;
    made.blocks = in_blocks;
    made.out_blocks = out_blocks;
    return made;
  }
  /// Done when every rank has begun it.
  static Operation barrier() { return {Collective::barrier}; }
  /// To one rank, which receives it with recv. Messages between two ranks match in order, tag by tag, and a receive
  /// comes to its message behind thousands of others. A blocking send may wait for its receive. It does not for up to
  /// 4 KiB in memory of the host, as long as what is on its way to that rank and not received takes 66 KiB at most,
  /// each message counted with 128 bytes more than it has: 16 of 4 KiB, 512 of 4 bytes. Longer ones are done when the
  /// receiver has them; ranks that send each other such do it in a group.
  static Operation send(const void* data, std::size_t count, DataType type, Rank to, std::int32_t tag = 0) {
    return {Collective::send, data, nullptr, count, type, ReduceOp::sum, to, tag};
  }
  /// At most `count` elements; Work::received() says how many came, from whom. A longer message is a mismatch.
  static Operation recv(void* data, std::size_t count, DataType type, Rank from, std::int32_t tag = any_tag) {
    return {Collective::recv, nullptr, data, count, type, ReduceOp::sum, from, tag};
  }
};

}  // namespace fabring
