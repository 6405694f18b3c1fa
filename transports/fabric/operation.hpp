#pragma once
// Operation: our record of one accepted post. Its first member is the scratch space that libfabric asks for and its
// address is the context that libfabric hands back, so a completion finds its record without a search. Records come
// from a pool and are reused, the one that has rested longest first, except those whose endpoint was closed under them
// and those that failed: libfabric may mention these again (an entry that is still in the completion queue; EFA before
// 2.3.1 tells of a message once for each of its packets that failed), so they stay out of the pool until the pool goes.

#include <cstdint>
#include <deque>
#include <memory>
#include <type_traits>

#include "transports/fabric/device_registrations.hpp"
#include "transports/fabric/handles.hpp"
#include "transports/fabric/locked_memory.hpp"

namespace fabring::fabric {

struct Peer;

/// flush: a receive whose bytes are read once through the card, so that the GPU has them.
enum class OperationKind : std::uint8_t { send, receive, flush, introduction, answer, keepalive };

struct Operation {
  fi_context2 reserved_for_libfabric;
  std::uint64_t context = 0;  ///< the engine's; for introductions the number of their buffer
  std::uint64_t tag = 0;      ///< of a send or a receive
  Peer* peer = nullptr;       ///< null: a receive for introductions from anyone
  Operation* previous = nullptr;
  Operation* next = nullptr;
  LockedMemory locked;                               ///< where the provider wants local memory registered
  std::shared_ptr<const DeviceRegistration> device;  ///< of memory of a GPU; null: the host's
  const std::byte* at = nullptr;                     ///< receives into memory of a GPU: where
  std::size_t received = 0;                          ///< flush
  OperationKind kind = OperationKind::send;
  bool live = false;  ///< accepted and not completed to the caller
};
static_assert(std::is_standard_layout_v<Operation>, "libfabric gives back the address of the first member");

/// The live operations of one peer: intrusive, so that ending a peer is a walk and a completion is O(1).
class OperationList {
 public:
  bool empty() const { return first_ == nullptr; }
  Operation* first() const { return first_; }
  void add(Operation& operation);
  void remove(Operation& operation);

 private:
  Operation* first_ = nullptr;
};

class OperationPool {
 public:
  Operation& acquire(OperationKind kind, std::uint64_t context, Peer* peer);
  /// Only for an operation that libfabric will not mention again.
  void release(Operation& operation);
  /// For one that is over but may be mentioned again.
  static void retire(Operation& operation);

 private:
  std::deque<Operation> all_;
  std::deque<Operation*> free_;
};

}  // namespace fabring::fabric
