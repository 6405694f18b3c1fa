#pragma once
// The steps of a plan that need no other rank: reductions, copies, the last division of an average.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/engine/execution/operands.hpp"

namespace fabring {

/// `to` = sources[0] (op) sources[1] (op) ...
void fold(const Call& call, std::byte* to, std::span<const void* const> sources, std::size_t count);

/// A reduction of a plan whose operands are all there: a reduce, or a recv_reduce and its message. A part of it at a
/// time, each once.
class StepFold {
 public:
  StepFold(const Call& call, const Plan& plan, const Operands& operands, const Placement& place, const Step& step,
           const std::byte* incoming = nullptr);
  StepFold(const StepFold&) = delete;  // its sources are in itself
  StepFold& operator=(const StepFold&) = delete;
  std::span<std::byte> result() const { return result_; }
  void run() { run(0, result_.size()); }
  /// Bytes [begin, end) of the result.
  void run(std::size_t begin, std::size_t end);

 private:
  const Call& call_;
  std::span<std::byte> result_;
  std::array<const void*, 64> few_;
  std::vector<const void*> many_;
  std::span<const void*> sources_;
  std::size_t at_ = 0;  // where sources_ point to
};

/// reduce, copy, finish.
void run_local_step(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                    const Step& step);

}  // namespace fabring
