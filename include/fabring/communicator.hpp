#pragma once
// Engine, Communicator, Work: the whole of Fabring for a program that embeds it.
//
//   auto engine = fabring::Engine::from_environment();            // rendezvous: every rank of the job calls this
//   if (!engine) { std::cerr << engine.error().to_string() << '\n'; return 3; }
//   fabring::Communicator world = (*engine)->world();
//   fabring::Status done = world.allreduce(gradients.data(), gradients.data(), gradients.size(),
//                                          fabring::DataType::float32, fabring::ReduceOp::sum);
//
// Threads: every function may be called from any thread (docs/threading.md). Collectives of one communicator run in the
// order they were called: one finds in its buffers what those before it left there, waited for or not. Sends and
// receives go on beside them and each other. All ranks must call the same collectives on it in the same order. Nothing
// here throws.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/export.hpp"
#include "fabring/memory.hpp"
#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "fabring/store.hpp"
#include "fabring/types.hpp"

namespace fabring {

class EngineCore;        // runtime/engine
class CommunicatorCore;  // runtime/engine
class Execution;         // runtime/engine

/// What a recv got.
struct Received {
  Rank source = -1;
  std::int32_t tag = -1;
  std::size_t count = 0;  ///< elements
};

/// An operation under way. Cheap to copy; all copies mean the same operation. Dropping it unwaited is fine: the
/// operation goes on, and its buffers must live until it is done.
class FABRING_API Work {
 public:
  /// Of no operation, which counts as over and well: wait() and status() are a success, done() is true.
  Work() = default;
  explicit Work(std::shared_ptr<Execution> execution);

  /// Waits until the operation is over and the buffers are the caller's again; returns how it ended.
  Status wait();
  /// As wait(), for at most `limit`; 0 and less: makes some progress, as done() does. Past it: ErrorCode::timeout, and
  /// the operation goes on.
  Status wait_for(std::chrono::nanoseconds limit);
  /// True when the operation is over, well or not. Makes progress if nobody else does.
  bool done();
  /// How it ended; success while it is not done.
  Status status() const;
  /// Of a recv that is done: from whom, which tag, how many. Of any other operation: -1, -1, 0.
  Received received() const;
  /// Calls function(context) once when the operation is over, well or not: at once if it is, otherwise later in
  /// whichever thread makes progress. It must not throw (that ends the process) and neither block nor call Fabring:
  /// hand over to a thread of your own. One function for an operation; a second call replaces one that was not called
  /// yet.
  void notify(void (*function)(void* context), void* context);

 private:
  std::shared_ptr<Execution> execution_;
};

/// An operation that is ready to be started any number of times. Cheap to copy. One that Communicator::prepare() did
/// not make is of none: its calls are `aborted`.
class FABRING_API Prepared {
 public:
  Prepared() = default;
  /// As Communicator::start: it is queued, however small, and costs a Work; run() is sooner over for who would wait at
  /// once. The buffers are Fabring's until the Work is done. A start before that one is done comes after it, as
  /// every collective does: in place it works on the other's result.
  Work start();
  /// As Communicator::run: what is small is run by its caller, past the queue.
  Status run();
  /// start(), ordered on this stream instead of the one that it was prepared with.
  Work start_on(void* stream);
  /// As Communicator::refused, of a start.
  void refused(const Status& why);

 private:
  friend class Communicator;
  struct State;
  std::shared_ptr<State> state_;
};

/// What an operation did and why, for `--explain` and tests.
struct Choice {
  struct Candidate {
    std::string algorithm;
    double predicted_us = 0;
    std::string excluded;  ///< why it did not take part; empty: it did
  };
  std::string algorithm;  ///< "ring", "hierarchical", ...
  std::string reason;
  /// Priced for exactly this size, where the choice is made for all sizes up to the next power of two. Lowest price
  /// first, but between nodes hierarchical or the ring also before one that is up to 12% lower; those left out at the
  /// end.
  std::vector<Candidate> candidates;
  Status status = {};  ///< why there is nothing to explain, as of a call; then `algorithm` is "none"
};

/// Traffic of this rank since its engine started, as its transport counted it.
struct Traffic {
  std::uint64_t payload_bytes_sent = 0;  ///< collective data only
  std::uint64_t payload_bytes_received = 0;
  std::uint64_t wire_bytes_sent = 0;  ///< everything handed to the fabric: data, headers, grants, credits
  std::uint64_t wire_bytes_received = 0;
  std::uint64_t messages_sent = 0;
};

/// A group of ranks that work together. Cheap to copy; all copies mean the same communicator. An empty one, which was
/// default-constructed or comes of a split by a negative colour, has size() 0 and rank() -1, and its calls are
/// `aborted`, as those of one whose engine is gone.
class FABRING_API Communicator {
 public:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<CommunicatorCore> core);

  Rank rank() const;
  int size() const;
  /// "world", or what split() was given, with '?' for control characters; of one longer than 200 bytes the first, and
  /// "...".
  const std::string& label() const;

  /// Runs an operation and returns when it is done here: results are in place, buffers are the caller's again.
  /// Errors: invalid_argument (null, misaligned, overlapping, no such root, ...), unsupported (a type the operation has
  /// no meaning for), mismatch, peer_lost, timeout, aborted, transport_error, out_of_memory.
  Status run(const Operation& operation);
  /// Begins it and returns at once; the buffers are Fabring's until the Work is done.
  Work start(const Operation& operation);
  /// Begins all of them, then waits for all: sends and receives among them go on side by side, in no particular order,
  /// so that none may use a buffer that another operation of the group writes: that is invalid_argument, of all of
  /// them, and nothing is begun. Collectives run in theirs. The first error, if any; by then nothing of the group is
  /// under way any more.
  Status run_group(std::span<const Operation> operations);
  std::vector<Work> start_group(std::span<const Operation> operations);
  /// Checks it, chooses and builds everything once, so that start() is cheap. Its buffers must stay where they are.
  /// Only this rank's business: the others may prepare theirs or not. Errors: invalid_argument (also for send and
  /// recv), unsupported, out_of_memory, device_error, as run() would refuse it; of a communicator that has failed, its
  /// first error; aborted once its engine is gone.
  Result<Prepared> prepare(const Operation& operation);

  // Short forms of run(Operation::...); operation.hpp says what each does.
  Status allreduce(const void* in, void* out, std::size_t count, DataType type, Reduction reduction) {
    return run(Operation::allreduce(in, out, count, type, reduction));
  }
  Status grouped_allreduce(std::span<const Tensor> tensors, DataType type, Reduction reduction) {
    return run(Operation::grouped_allreduce(tensors, type, reduction));
  }
  Status reduce(const void* in, void* out, std::size_t count, DataType type, Reduction reduction, Rank root) {
    return run(Operation::reduce(in, out, count, type, reduction, root));
  }
  Status reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction reduction) {
    return run(Operation::reduce_scatter(in, out, count, type, reduction));
  }
  Status all_gather(const void* in, void* out, std::size_t count, DataType type) {
    return run(Operation::all_gather(in, out, count, type));
  }
  Status broadcast(void* data, std::size_t count, DataType type, Rank root) {
    return run(Operation::broadcast(data, data, count, type, root));
  }
  Status gather(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return run(Operation::gather(in, out, count, type, root));
  }
  Status scatter(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return run(Operation::scatter(in, out, count, type, root));
  }
  Status alltoall(const void* in, void* out, std::size_t count, DataType type) {
    return run(Operation::alltoall(in, out, count, type));
  }
  Status send(const void* data, std::size_t count, DataType type, Rank to, std::int32_t tag = 0) {
    return run(Operation::send(data, count, type, to, tag));
  }
  Status recv(void* data, std::size_t count, DataType type, Rank from, std::int32_t tag = any_tag) {
    return run(Operation::recv(data, count, type, from, tag));
  }
  /// Waits until every rank has called it.
  Status barrier() { return run(Operation::barrier()); }

  /// The short form of start(Operation::allreduce(...)).
  Work allreduce_async(const void* in, void* out, std::size_t count, DataType type, Reduction reduction) {
    return start(Operation::allreduce(in, out, count, type, reduction));
  }
  /// Likewise. The list of tensors is only read during the call.
  Work grouped_allreduce_async(std::span<const Tensor> tensors, DataType type, Reduction reduction) {
    return start(Operation::grouped_allreduce(tensors, type, reduction));
  }

  /// How this operation would run, and why. The same on every rank.
  Choice explain(const Operation& operation) const;

  /// Splits by colour; ranks of one colour form a communicator ordered by (key, rank). Every rank of this one must
  /// call. A negative colour: no communicator (an empty one with size() 0). Errors: mismatch, peer_lost, timeout,
  /// aborted, transport_error, out_of_memory, as of an allreduce on this one; unsupported when the engine has no number
  /// left for a communicator (2^29 were made).
  Result<Communicator> split(int colour, int key, std::string label = {});
  /// The ranks of each node, in the order of this communicator. Every rank must call. Errors: as split().
  Result<Communicator> split_by_node(std::string label = {});
  /// The same ranks once more: operations on it match apart from those of this one. Every rank must call. Errors: as
  /// split().
  Result<Communicator> duplicate(std::string label = {});

  /// The same ranks once more, with plans from outside: `text` is what `fabring plan --json` writes, of as many ranks
  /// as these, changed or made by anybody. Operations of their collective, root and kind (avg or not) are run by them,
  /// others are chosen for as on any; what they cannot do (docs/algorithms.md) is `unsupported`. They are proved
  /// before, on every rank, which takes its time for many ranks. Every rank must call, with the same text. What is made
  /// of the new communicator by split, duplicate or shrink is without plans. Errors: invalid_argument with the step
  /// that is wrong, or for another number of ranks; unsupported; mismatch if ranks have different texts, naming two.
  /// Then this communicator is as usable as before. Others: as split().
  Result<Communicator> with_plans(std::string_view text, std::string label = {});

  /// These ranks of this communicator, each once and the caller's among them, as one of their own, in this order. Only
  /// they call it; nothing is sent and nobody is waited for. All of them give the same `number`, below 2^31, that none
  /// of them has given to a subgroup of this engine before, also to one that is gone (a counter will do): it is
  /// refused. Groups without a common rank may have the same one. Errors: invalid_argument (a list without this rank,
  /// with one that there is not, or with one twice; a number that is none, or was given); aborted once the engine is
  /// gone.
  Result<Communicator> subgroup(std::span<const Rank> ranks, std::uint32_t number, std::string label = {});

  /// Those of its ranks that are left, in the same order, as one of their own: all but those that were lost or have
  /// left. They agree on who that is, so all of them get the same one, whoever is lost meanwhile. For a communicator
  /// that has failed; of one that is well it is a duplicate. Every rank that is left must call, as often as the others;
  /// it waits for them, at most FABRING_TIMEOUT. Where lost ranks may be alive (silent, out of reach), more than half
  /// of those that have not ended go on, or the half with the lowest of them. Errors: peer_lost (the others count this
  /// rank as lost, or those who are left are too few), timeout, aborted.
  Result<Communicator> shrink(std::string label = {});

  /// For bindings: a call was refused before it could come here. Who waits in it hears why, as of one that was refused
  /// here. Of the operation the collective matters, and of a send or recv its root and tag. Returns `why`, with this
  /// rank as the one at fault where it names none.
  Status refused(const Operation& operation, const Status& why);
  /// Likewise of a subgroup.
  Status refused_subgroup(std::uint32_t number, const Status& why);

  /// Ends this communicator on every rank: operations under way end with ErrorCode::aborted. Local, returns at once,
  /// also when peers are stopped or gone. Other communicators of the engine go on.
  void abort(std::string reason);

  /// Success while usable; the first error afterwards.
  Status health() const;

  /// The number in the job of each rank, by rank: of world 0, 1, 2, ... Errors name ranks by these.
  std::vector<Rank> members() const;
  /// Node (ranks sharing a host) of each rank, by rank: equal numbers share a node.
  std::vector<int> nodes() const;
  explicit operator bool() const { return core_ != nullptr; }

 private:
  std::shared_ptr<CommunicatorCore> core_;
  friend struct GivenPlan;
};

/// Owns what communicators share: endpoints, scratch, the control plane. One per process is usual, several work.
/// Its destructor leaves the job in good order (bounded by Config::leave_timeout; by 0.2 s where world has failed and
/// no communicator of several ranks that was made since, as by shrink(), is well), and first receives what is coming.
/// What a GPU was given to do for an operation it waits for once more as long, 2 s at least.
///
/// In a child of fork() it is the parent's, with its communicators, works and memory: every call on them there is
/// invalid_argument at once (a Work is done, explain() has it as its status, abort() does nothing, there is no
/// traffic); what only reads (rank(), size(), label(), nodes(), report(), config()) works, and leave() and destructors
/// do nothing. A child may make an engine of its own.
class FABRING_API Engine {
 public:
  /// Reads the environment (FABRING_*, torchrun, ...) once and meets the other ranks. Errors: invalid_argument (a
  /// setting, or a rank that is there twice), unavailable (a port, name, card or provider, or no network that works on
  /// every rank), timeout (names the ranks that did not come), mismatch (other versions, jobs, secrets or settings),
  /// peer_lost, unsupported (a congestion control that the kernel refuses), out_of_memory, transport_error.
  /// Engines of one process that meet at one port are made one after the other, in the same order on all ranks; at once
  /// only with a FABRING_MASTER_PORT each.
  static Result<std::unique_ptr<Engine>> from_environment();
  /// The same from an explicit configuration; nothing is read from the environment. What the setting of a field does
  /// not allow is invalid_argument; timeouts above ten years count as ten years, so that their max() is no limit.
  /// Errors: as from_environment().
  static Result<std::unique_ptr<Engine>> create(Config config);
  /// The same for a framework whose ranks have met: they find each other by its store, which is used during this call
  /// only. Of the configuration, rank and world_size must be set; master_addr, if it is, tells which interface is
  /// meant. Errors: as from_environment(), and those of the store (store.hpp), with its key.
  static Result<std::unique_ptr<Engine>> create(Config config, Store& store);
  /// For a rank that cannot call that, as its configuration is refused: the others, which wait for it in this store,
  /// end at once, with its reason. What create() refuses it tells them itself. Errors: invalid_argument (`why` is no
  /// error, a negative rank), those of the store.
  static Status decline(Store& store, int rank, const Status& why);

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// All ranks of the job.
  Communicator world();
  /// Ends what is under way here, also by other threads, with ErrorCode::aborted on every rank that takes part, but for
  /// messages that have begun to come. Says goodbye and waits, bounded, until the others have too. Called by the
  /// destructor; calling it oneself gives the Status. Errors: timeout (names the ranks that had not left by then),
  /// mismatch (ranks called different things, and no call here has said so). This rank has left in any case; a second
  /// call does nothing and is a success, and returns no sooner than the first. How operations ended is told by their
  /// own Status only.
  Status leave();

  /// Memory that the ranks of this host read and write directly (memory.hpp); ordinary memory where they share none.
  /// Only this rank's business. Takes the time to make its pages. Errors: out_of_memory, with the size and the limit
  /// (FABRING_MAPPED_BYTES).
  Result<MappedBuffer> allocate(std::size_t bytes);

  Traffic traffic() const;
  /// What was chosen at start and why, a line each: transport, interface, nodes, waiting.
  std::vector<std::string> report() const;
  /// What the engine was made with: as given, but sockets_per_peer is what is used (of several values the largest), and
  /// segment_bytes where little scratch makes it smaller than usual.
  const Config& config() const;

 private:
  explicit Engine(std::shared_ptr<EngineCore> core);
  std::shared_ptr<EngineCore> core_;
  friend class MappedResource;
};

}  // namespace fabring
