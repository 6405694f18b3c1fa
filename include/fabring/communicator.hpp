#pragma once
// Engine, Communicator, Work: the whole of Fabring for a program that embeds it.
//
//   auto engine = fabring::Engine::from_environment();            // rendezvous: every rank of the job calls this
//   if (!engine) { std::cerr << engine.error().message() << '\n'; return 3; }
//   fabring::Communicator world = (*engine)->world();
//   fabring::Status done = world.allreduce(gradients.data(), gradients.data(), gradients.size(),
//                                          fabring::DataType::float32, fabring::ReduceOp::sum);
//
// Threads: every function may be called from any thread (docs/threading.md). Operations of one communicator run in the
// order they were called; all ranks must call the same operations on it in the same order. Nothing here throws.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/export.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring {

class EngineCore;        // runtime/engine
class CommunicatorCore;  // runtime/engine
class Execution;         // runtime/engine

/// An operation under way. Cheap to copy; all copies mean the same operation. Dropping it unwaited is fine: the
/// operation goes on, and its buffers must live until it is done.
class FABRING_API Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Execution> execution);

  /// Waits until the operation is over and the buffers are the caller's again; returns how it ended.
  Status wait();
  /// As wait(), for at most `limit`. Past it: ErrorCode::timeout, and the operation goes on.
  Status wait_for(std::chrono::nanoseconds limit);
  /// True when the operation is over, well or not. Makes progress if nobody else does.
  bool done();
  /// How it ended; success while it is not done.
  Status status() const;

 private:
  std::shared_ptr<Execution> execution_;
};

/// What an operation did and why, for `--explain` and tests.
struct Choice {
  std::string algorithm;  ///< "ring", "hierarchical", "recursive_doubling", "direct"
  std::string reason;
};

/// Traffic of this rank since its engine started, as its transport counted it.
struct Traffic {
  std::uint64_t payload_bytes_sent = 0;      ///< collective data only
  std::uint64_t payload_bytes_received = 0;
  std::uint64_t wire_bytes_sent = 0;         ///< everything handed to the fabric: data, headers, grants, credits
  std::uint64_t wire_bytes_received = 0;
  std::uint64_t messages_sent = 0;
};

/// A group of ranks that work together. Cheap to copy; all copies mean the same communicator.
class FABRING_API Communicator {
 public:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<CommunicatorCore> core);

  Rank rank() const;
  int size() const;
  const std::string& label() const;  ///< "world", or what split() was given

  /// out[i] = reduction over all ranks of in[i], for i < count; the same bits on every rank. `in` may equal `out`;
  /// otherwise they must not overlap. Both are aligned to the element. Returns when it is done here.
  /// Errors: invalid_argument (null, misaligned, overlapping), mismatch, peer_lost, timeout, aborted, transport_error.
  Status allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op);
  /// The same, begun: returns at once; `in` and `out` are Fabring's until the Work is done.
  Work allreduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op);

  /// How an allreduce of this size would run, and why. The same on every rank.
  Choice explain_allreduce(std::size_t count, DataType type, ReduceOp op) const;

  /// Splits by colour; ranks of one colour form a communicator ordered by (key, rank). Every rank of this one must
  /// call. A negative colour: no communicator (an empty one with size() 0).
  Result<Communicator> split(int colour, int key, std::string label = {});

  /// Waits until every rank has called it.
  Status barrier();

  /// Ends this communicator on every rank: operations under way end with ErrorCode::aborted. Local, returns at once,
  /// also when peers are stopped or gone. Other communicators of the engine go on.
  void abort(std::string reason);

  /// Success while usable; the first error afterwards.
  Status health() const;

  /// Node (ranks sharing a host) of each rank, by rank: equal numbers share a node.
  std::vector<int> nodes() const;
  explicit operator bool() const { return core_ != nullptr; }

 private:
  std::shared_ptr<CommunicatorCore> core_;
};

/// Owns what communicators share: endpoints, scratch, the control plane. One per process is usual, several work.
/// Its destructor leaves the job in good order (bounded by Config::leave_timeout).
class FABRING_API Engine {
 public:
  /// Reads the environment (FABRING_*, torchrun, ...) once and meets the other ranks.
  static Result<std::unique_ptr<Engine>> from_environment();
  /// The same from an explicit configuration; nothing is read from the environment.
  static Result<std::unique_ptr<Engine>> create(Config config);

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// All ranks of the job.
  Communicator world();
  /// Says goodbye and waits, bounded, until the others have too. Called by the destructor; calling it oneself gives
  /// the Status.
  Status leave();

  Traffic traffic() const;
  /// What was chosen at start and why, a line each: transport, interface, nodes, waiting.
  std::vector<std::string> report() const;
  const Config& config() const;

 private:
  explicit Engine(std::shared_ptr<EngineCore> core);
  std::shared_ptr<EngineCore> core_;
  friend class EngineCore;
};

}  // namespace fabring
