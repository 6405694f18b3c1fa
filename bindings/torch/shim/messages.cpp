// What ProcessGroup does between two ranks, and the barrier.

#include <c10/util/Exception.h>

#include "arguments.hpp"

namespace fabring_torch {

ProcessGroup::WorkPointer ProcessGroup::message(Tensors& tensors, c10d::OpType type, int peer, int tag) try {
  const bool sends = type == c10d::OpType::SEND;
  const char* const title = sends ? "send" : "recv";
  TORCH_CHECK_VALUE(tensors.size() == 1, "fabring: ", title, " takes one tensor, not ", tensors.size());
  TORCH_CHECK_VALUE(peer >= 0 || type == c10d::OpType::RECVANYSOURCE, "fabring: ", title, ": there is no rank ", peer,
                    "; ranks are 0 to ", size_ - 1);
  Task task;
  task.type = type;
  task.title = sends ? "fabring:send" : type == c10d::OpType::RECV ? "fabring:recv" : "fabring:recvAnySource";
  fabring_operation operation =
      describe_operation(sends ? FABRING_COLLECTIVE_SEND : FABRING_COLLECTIVE_RECV, c10d::kUnsetTimeout);
  const at::Tensor buffer = sends ? to_read(tensors[0], "the tensor to send")
                                  : to_write(tensors[0], false, task.copies, "the tensor to fill");
  const Elements elements = elements_to_move(buffer);
  const at::Tensor none;
  fill(operation, sends ? buffer : none, sends ? none : buffer, elements, buffer);
  operation.root = peer;
  operation.tag = tag;
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), /*asynchronous=*/true, /*counts=*/false);
} catch (const c10::Error& thrown) {
  fabring_operation operation = FABRING_OPERATION_INIT;
  operation.collective = type == c10d::OpType::SEND ? FABRING_COLLECTIVE_SEND : FABRING_COLLECTIVE_RECV;
  operation.root = peer;
  operation.tag = tag;
  tell_refused(thrown, &operation);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int to, int tag) {
  return message(tensors, c10d::OpType::SEND, to, tag);
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  return message(tensors, c10d::OpType::RECV, from, tag);
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return message(tensors, c10d::OpType::RECVANYSOURCE, FABRING_ANY_SOURCE, tag);
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  Task task;
  task.type = c10d::OpType::BARRIER;
  task.title = "fabring:barrier";
  task.operations = {describe_operation(FABRING_COLLECTIVE_BARRIER, options.timeout)};
  return start(std::move(task), options.asyncOp);
}

}  // namespace fabring_torch
