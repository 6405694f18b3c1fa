#pragma once
// A child of fork() has all objects of its parent, but none of its threads, and must not touch its connections: what
// was made before the fork is of no use there, what it makes itself is.

#include <atomic>
#include <memory>

#include "bindings/fork_origin.hpp"

namespace fabring_torch {

/// Where an object was made.
class Origin : public fabring::bindings::ForkOrigin {
 public:
  /// Throws if it is not this process.
  void check() const;
};

/// Held by a process group from its beginning to its shutdown(), so that a child of fork() knows whether its parent had
/// one at that moment: then its store and its ranks are its parent's.
class OpenGroup {
 public:
  OpenGroup();
  ~OpenGroup();
  OpenGroup(const OpenGroup&) = delete;
  OpenGroup& operator=(const OpenGroup&) = delete;

  /// Throws in a child of fork() whose parent had process groups.
  static void check_none_before_fork();

 private:
  const Origin origin_;
};

/// The one T of this process. Never freed, as there may be something to do until the process ends; a child of fork()
/// makes its own, since the parent's may be locked by a thread that the child has not.
template <class T>
T& of_process() {
  struct Made {
    T value;
    const Origin origin;
  };
  static std::atomic<Made*> last{nullptr};
  Made* found = last.load(std::memory_order_acquire);
  if (found != nullptr && found->origin.is_here()) return found->value;
  auto made = std::make_unique<Made>();
  if (!last.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return found->value;
  return made.release()->value;
}

}  // namespace fabring_torch
