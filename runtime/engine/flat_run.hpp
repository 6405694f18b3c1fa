#pragma once
// FlatRun: a small operation run at once by the thread that calls it: the steps of its plan one after the other, each
// message a record (transfer.hpp) that is read where the peer or the endpoint put it. Nothing is queued, allocated or
// registered anywhere. When something else than the next message comes, or nothing comes for too long, it stops where
// it is, and an Execution goes on from there: on the wire the two are the same, so that it does not matter which of
// them a peer uses. Kept by its communicator, because what it works out for one call serves the next. The driver's.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fabring/operation.hpp"
#include "runtime/engine/operands.hpp"
#include "runtime/engine/prepared_plan.hpp"

namespace fabring {

class CommunicatorCore;
class EngineCore;

class FlatRun {
 public:
  /// `call` is what `operation` asks for, `tiling` how it is cut: not at all.
  FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling);

  /// Was it made for operations like this one, buffers aside?
  bool serves(const Operation& operation) const;
  /// False: there is something wrong with them, or the processor may not touch them.
  bool take_buffers(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices);
  /// Is every message of it one that may travel so?
  bool fits(const EngineCore& engine) const;
  const std::shared_ptr<const PreparedPlan>& plan() const { return plan_; }
  const Signature& signature() const { return signature_; }

  enum class End : std::uint8_t { done, stopped };
  End run(EngineCore& engine, CommunicatorCore& communicator, std::uint32_t sequence);

  // After `stopped`: what is to go on, and what of it is done.
  const Call& call() const { return call_; }
  std::span<const StepId> done() const { return {order_.data(), next_}; }
  std::span<const std::byte> scratch() const { return scratch_; }

 private:
  void arrange();
  bool run(EngineCore& engine, CommunicatorCore& communicator, const Step& step);
  bool send(EngineCore& engine, CommunicatorCore& communicator, const Step& step);
  bool receive(EngineCore& engine, CommunicatorCore& communicator, const Step& step);
  void hear_news(EngineCore& engine, CommunicatorCore& communicator, Rank member);
  bool await(EngineCore& engine, CommunicatorCore& communicator, const Step& step, std::size_t bytes,
             std::span<const std::byte>& payload);

  std::shared_ptr<const PreparedPlan> plan_;
  Call call_;
  Operation operation_;  // its buffers do not matter, and may be gone
  Operands operands_;    // of call_
  Placement place_;
  std::vector<std::byte> scratch_;
  std::vector<StepId> order_;  // sends as early as can be
  std::size_t longest_message_ = 0;
  Signature signature_;
  std::uint32_t sequence_ = 0;
  std::size_t next_ = 0;
};

}  // namespace fabring
