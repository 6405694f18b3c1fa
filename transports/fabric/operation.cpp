#include "transports/fabric/operation.hpp"

namespace fabring::fabric {

void OperationList::add(Operation& operation) {
  operation.previous = nullptr;
  operation.next = first_;
  if (first_) first_->previous = &operation;
  first_ = &operation;
}

void OperationList::remove(Operation& operation) {
  if (operation.previous) operation.previous->next = operation.next;
  if (operation.next) operation.next->previous = operation.previous;
  if (first_ == &operation) first_ = operation.next;
  operation.previous = operation.next = nullptr;
}

Operation& OperationPool::acquire(OperationKind kind, std::uint64_t context, Peer* peer) {
  if (free_.empty()) {
    all_.emplace_back();
    free_.push_back(&all_.back());
  }
  Operation& operation = *free_.front();
  free_.pop_front();
  operation.kind = kind;
  operation.context = context;
  operation.peer = peer;
  operation.live = true;
  return operation;
}

void OperationPool::release(Operation& operation) {
  retire(operation);
  free_.push_back(&operation);
}

void OperationPool::retire(Operation& operation) {
  operation.locked.reset();
  operation.device.reset();
  operation.live = false;
}

}  // namespace fabring::fabric
