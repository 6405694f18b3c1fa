// ProcessGroup: scatter, reduce_scatter and alltoall in their forms.

#include "arguments.hpp"
#include "versions.hpp"

namespace fabring_torch {

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ScatterOptions& options) try {
  check_one(outputs, "scatter", "output");
  check_root(options.rootRank, "scatter");
  Task task;
  task.type = c10d::OpType::SCATTER;
  task.title = "fabring:scatter";
  const at::Tensor out = to_write(outputs[0], false, task.copies, "the output");
  at::Tensor in;
  if (options.rootRank == rank_) {
    check_one(inputs, "scatter", "list of inputs");
    TORCH_CHECK_VALUE(inputs[0].size() == static_cast<std::size_t>(size_), "fabring: scatter to ", size_,
                      " ranks needs as many inputs, not ", inputs[0].size());
    TORCH_CHECK_VALUE(of_one_size(inputs[0], out.numel()), "fabring: scatter: every input has the size of the output, ",
                      describe(out));
    in = to_read(inputs[0], "inputs");
    check_type(in, out.scalar_type(), "an input");
    in = apart(in, out, -rank_ * out.numel());
  } else {
    check_none(inputs, "scatter");
  }
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_SCATTER, options.timeout);
  fill(operation, in, out, elements_to_move(out), out);
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {out};
  if (in.defined()) task.kept.push_back(in);
  task.outputs = outputs;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

void ProcessGroup::add_reduce_scatter(Task& task, const at::Tensor& output, const at::Tensor& input,
                                      const c10d::ReduceScatterOptions& options) const {
  check_usable(output, "the output");
  check_type(input, output.scalar_type(), "the input");
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size_, "fabring: the input of a reduce_scatter of ", size_,
                    " ranks holds ", size_, " times the output, but it is ", describe(input), " for ",
                    describe(output));
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  const at::Tensor in = apart(to_read(input, "the input"), out, -rank_ * out.numel());
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_REDUCE_SCATTER, options.timeout);
  const Elements elements = elements_to_reduce(out, options.reduceOp, &operation);
  fill(operation, in, out, elements, out);
  task.kept.insert(task.kept.end(), {in, out});
  task.operations.push_back(operation);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                       const c10d::ReduceScatterOptions& options) try {
  check_one(outputs, "reduce_scatter", "output");
  check_one(inputs, "reduce_scatter", "list of inputs");
  TORCH_CHECK_VALUE(inputs[0].size() == static_cast<std::size_t>(size_), "fabring: reduce_scatter to ", size_,
                    " ranks needs as many inputs, not ", inputs[0].size());
  check_usable(outputs[0], "the output");
  Task task;
  task.type = c10d::OpType::REDUCE_SCATTER;
  task.title = "fabring:reduce_scatter";
  task.outputs = outputs;
  at::Tensor in = to_read(inputs[0], "inputs");
  if (of_one_size(inputs[0], outputs[0].numel())) {
    add_reduce_scatter(task, outputs[0], in, options);
    return start(std::move(task), options.asyncOp);
  }
  // Every rank gets another length, which all ranks know from their inputs.
  TORCH_CHECK_VALUE(inputs[0][static_cast<std::size_t>(rank_)].numel() == outputs[0].numel(),
                    "fabring: reduce_scatter: input ", rank_, " is for this rank's output, ", describe(outputs[0]),
                    ", but it is ", describe(inputs[0][static_cast<std::size_t>(rank_)]));
  const at::Tensor out = to_write(outputs[0], false, task.copies, "the output");
  check_type(in, out.scalar_type(), "an input");
  in = apart(in, out, -elements_before(inputs[0], rank_));
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_REDUCE_SCATTER, options.timeout);
  const Elements elements = elements_to_reduce(out, options.reduceOp, &operation);
  const std::vector<std::size_t> counts = counts_of(inputs[0], elements);
  fill(operation, in, out, elements);
  operation.counts = counts.data();
  task.kept = {in, out};
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::ReduceScatterOptions& options) try {
  Task task;
  task.type = c10d::OpType::_REDUCE_SCATTER_BASE;
  task.title = "fabring:_reduce_scatter_base";
  add_reduce_scatter(task, output, input, options);
  task.outputs = {output};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                        const c10d::ReduceScatterOptions& options) try {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "fabring: reduce_scatter_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  Task task;
  task.type = reduce_scatter_tensor_coalesced_type;
  task.title = "fabring:reduce_scatter";
  for (std::size_t i = 0; i < inputs.size(); ++i) add_reduce_scatter(task, outputs[i], inputs[i], options);
  task.outputs = outputs;
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

// ---- from each to each --------------------------------------------------------------------------------------------

namespace {

/// Lengths of the parts along the first dimension; equal ones where none are given.
std::vector<std::size_t> parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int ranks,
                                  const Elements& elements, const char* what) {
  const auto size = static_cast<std::size_t>(ranks);
  TORCH_CHECK_VALUE(tensor.dim() > 0, "fabring: alltoall: ", what, " has no dimension to be split");
  if (splits.empty()) {
    TORCH_CHECK_VALUE(tensor.size(0) % ranks == 0, "fabring: alltoall: ", what, " is ", describe(tensor),
                      ", which cannot be split into ", ranks, " equal parts; give split sizes");
    return std::vector<std::size_t>(size, count_of(tensor, elements) / size);
  }
  TORCH_CHECK_VALUE(splits.size() == size, "fabring: alltoall: ", splits.size(), " split sizes of ", what, " for ",
                    ranks, " ranks");
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0 && split <= tensor.size(0), "fabring: alltoall: ", split, " is no split size of ",
                      what, ", ", describe(tensor));
    sum += split;
  }
  TORCH_CHECK_VALUE(sum == tensor.size(0), "fabring: alltoall: the split sizes of ", what, " sum to ", sum,
                    ", but its first dimension is ", tensor.size(0));
  const std::size_t row =
      tensor.size(0) == 0 ? 0 : count_of(tensor, elements) / static_cast<std::size_t>(tensor.size(0));
  std::vector<std::size_t> counts;
  for (const std::int64_t split : splits) counts.push_back(static_cast<std::size_t>(split) * row);
  return counts;
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<std::int64_t>& output_splits,
                                                      std::vector<std::int64_t>& input_splits,
                                                      const c10d::AllToAllOptions& options) try {
  Task task;
  task.type = c10d::OpType::ALLTOALL_BASE;
  task.title = "fabring:all_to_all";
  check_usable(input, "the input");
  check_type(output, input.scalar_type(), "the output");
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  const at::Tensor in = apart(to_read(input, "the input"), out, 0);
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> in_counts = parts_of(in, input_splits, size_, elements, "the input");
  const std::vector<std::size_t> out_counts = parts_of(out, output_splits, size_, elements, "the output");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLTOALL, options.timeout);
  fill(operation, in, out, elements);
  if (input_splits.empty() && output_splits.empty()) {
    TORCH_CHECK_VALUE(in.numel() == out.numel(), "fabring: alltoall: the input is ", describe(in), ", the output ",
                      describe(out), "; without split sizes they have one size");
    operation.count = in_counts[0];
  } else {
    operation.counts = in_counts.data();
    operation.out_counts = out_counts.data();
  }
  task.kept = {in, out};
  task.outputs = {output};
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) try {
  const auto size = static_cast<std::size_t>(size_);
  TORCH_CHECK_VALUE(inputs.size() == size && outputs.size() == size, "fabring: alltoall of ", size_,
                    " ranks needs as many inputs and outputs, not ", inputs.size(), " and ", outputs.size());
  Task task;
  task.type = c10d::OpType::ALLTOALL;
  task.title = "fabring:all_to_all";
  const at::Tensor out = to_write(outputs, task.copies, "outputs");
  const at::Tensor in = apart(to_read(inputs, "inputs"), out, 0);
  check_type(out, in.scalar_type(), "an output");
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> in_counts = counts_of(inputs, elements), out_counts = counts_of(outputs, elements);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLTOALL, options.timeout);
  fill(operation, in, out, elements);
  operation.counts = in_counts.data();
  operation.out_counts = out_counts.data();
  task.kept = {in, out};
  task.outputs = outputs;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

}  // namespace fabring_torch
