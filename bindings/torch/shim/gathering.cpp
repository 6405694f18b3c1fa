// ProcessGroup: allgather and gather in their forms.

#include "arguments.hpp"

namespace fabring_torch {

void ProcessGroup::add_allgather(Task& task, const at::Tensor& output, const at::Tensor& input,
                                 std::chrono::milliseconds timeout) const {
  check_type(input, output.scalar_type(), "the input");
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, "fabring: the output of an all_gather of ", size_,
                    " ranks holds ", size_, " times the input, but it is ", describe(output), " for ", describe(input));
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  const at::Tensor in = apart(to_read(input, "the input"), out, rank_ * input.numel());
  const Elements elements = elements_to_move(in);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALL_GATHER, timeout);
  fill(operation, in, out, elements, in);
  task.kept.insert(task.kept.end(), {in, out});
  task.operations.push_back(operation);
}

void ProcessGroup::add_allgather(Task& task, const Tensors& outputs, const at::Tensor& input,
                                 std::chrono::milliseconds timeout) const {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(size_), "fabring: allgather of ", size_,
                    " ranks needs as many outputs, not ", outputs.size());
  for (const at::Tensor& output : outputs) {
    check_type(output, input.scalar_type(), "an output");
    TORCH_CHECK_VALUE(output.numel() == input.numel(), "fabring: allgather: every output has the size of the input, ",
                      describe(input), ", but one is ", describe(output));
  }
  add_allgather(task, to_write(outputs, task.copies, "outputs"), input, timeout);
}

ProcessGroup::WorkPointer ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) try {
  check_one(inputs, "allgather", "input");
  check_one(outputs, "allgather", "list of outputs");
  check_usable(inputs[0], "the input");
  Task task;
  task.type = c10d::OpType::ALLGATHER;
  task.title = "fabring:all_gather";
  task.outputs = outputs[0];
  const bool alike = of_one_size(outputs[0], inputs[0].numel());
  if (alike || outputs[0].size() != static_cast<std::size_t>(size_)) {
    add_allgather(task, outputs[0], inputs[0], options.timeout);
    return start(std::move(task), options.asyncOp);
  }
  // Every rank another length, which all ranks know from their outputs.
  const at::Tensor out = to_write(outputs[0], task.copies, "outputs");
  check_type(inputs[0], out.scalar_type(), "the input");
  TORCH_CHECK_VALUE(outputs[0][static_cast<std::size_t>(rank_)].numel() == inputs[0].numel(),
                    "fabring: allgather: output ", rank_, " is for this rank's input, ", describe(inputs[0]),
                    ", but it is ", describe(outputs[0][static_cast<std::size_t>(rank_)]));
  const at::Tensor in = apart(to_read(inputs[0], "the input"), out, elements_before(outputs[0], rank_));
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> counts = counts_of(outputs[0], elements);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALL_GATHER, options.timeout);
  fill(operation, in, out, elements);
  operation.counts = counts.data();
  task.kept = {in, out};
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) try {
  Task task;
  task.type = c10d::OpType::_ALLGATHER_BASE;
  task.title = "fabring:_all_gather_base";
  check_usable(output, "the output");
  add_allgather(task, output, input, options.timeout);
  task.outputs = {output};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                        const c10d::AllgatherOptions& options) try {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "fabring: allgather_into_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  Task task;
  task.type = c10d::OpType::ALLGATHER_COALESCED;
  task.title = "fabring:all_gather";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_usable(outputs[i], "an output");
    add_allgather(task, outputs[i], inputs[i], options.timeout);
  }
  task.outputs = outputs;
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

// outputs[rank][i] is what that rank gave as inputs[i].
ProcessGroup::WorkPointer ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) try {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(size_), "fabring: allgather_coalesced of ", size_,
                    " ranks needs as many lists of outputs, not ", outputs.size());
  Task task;
  task.type = c10d::OpType::ALLGATHER_COALESCED;
  task.title = "fabring:all_gather";
  for (const Tensors& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "fabring: allgather_coalesced: a list of ", list.size(),
                      " outputs for ", inputs.size(), " inputs");
    task.outputs.insert(task.outputs.end(), list.begin(), list.end());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_usable(inputs[i], "an input");
    Tensors of_all;
    for (const Tensors& list : outputs) of_all.push_back(list[i]);
    add_allgather(task, of_all, inputs[i], options.timeout);
  }
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::gather(TensorLists& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) try {
  check_one(inputs, "gather", "input");
  check_root(options.rootRank, "gather");
  Task task;
  task.type = c10d::OpType::GATHER;
  task.title = "fabring:gather";
  at::Tensor in = to_read(inputs[0], "the input");
  at::Tensor out;
  if (options.rootRank == rank_) {
    check_one(outputs, "gather", "list of outputs");
    TORCH_CHECK_VALUE(outputs[0].size() == static_cast<std::size_t>(size_), "fabring: gather from ", size_,
                      " ranks needs as many outputs, not ", outputs[0].size());
    TORCH_CHECK_VALUE(of_one_size(outputs[0], in.numel()), "fabring: gather: every output has the size of the input, ",
                      describe(in));
    out = to_write(outputs[0], task.copies, "outputs");
    check_type(out, in.scalar_type(), "an output");
    in = apart(in, out, rank_ * in.numel());
    task.outputs = outputs[0];
  } else {
    check_none(outputs, "gather");
  }
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_GATHER, options.timeout);
  fill(operation, in, out, elements_to_move(in), in);
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {in};
  if (out.defined()) task.kept.push_back(out);
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

}  // namespace fabring_torch
