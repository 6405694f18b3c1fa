// The collectives of ProcessGroup.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>

#include "process_group.hpp"

namespace fabring_torch {
namespace {

using Tensors = ProcessGroup::Tensors;

// Together these are copied into one buffer and reduced as one; larger ones are reduced one by one, side by side.
constexpr std::size_t most_coalesced_bytes = std::size_t{1} << 20;

template <class List>
void check_one(const List& list, const char* title, const char* what) {
  TORCH_CHECK_VALUE(list.size() == 1, "fabring: ", title, " takes one ", what, ", not ", list.size());
}

void check_none(const std::vector<Tensors>& lists, const char* title) {
  TORCH_CHECK_VALUE(lists.empty() || (lists.size() == 1 && lists[0].empty()), "fabring: ", title,
                    ": only the root gives a list of tensors");
}

std::size_t count_of(const at::Tensor& tensor, const Elements& elements) {
  return static_cast<std::size_t>(tensor.numel()) * elements.factor;
}

bool of_one_size(const Tensors& tensors, std::int64_t elements) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.numel() == elements; });
}

std::vector<std::size_t> counts_of(const Tensors& tensors, const Elements& elements) {
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(count_of(tensor, elements));
  return counts;
}

}  // namespace

// ---- to all, from all ---------------------------------------------------------------------------------------------

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_one(tensors, "broadcast", "tensor");
  check_root(options.rootRank, "broadcast");
  Task task;
  task.type = c10d::OpType::BROADCAST;
  task.title = "fabring:broadcast";
  const at::Tensor buffer = to_write(tensors[0], options.rootRank == rank_, task.copies, "the tensor");
  const Elements elements = elements_to_move(buffer);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_BROADCAST, options.timeout);
  operation.in = operation.out = buffer.mutable_data_ptr();
  operation.count = count_of(buffer, elements);
  operation.type = elements.type;
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check_one(tensors, "allreduce", "tensor");
  if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  Task task;
  task.type = c10d::OpType::ALLREDUCE;
  task.title = "fabring:all_reduce";
  const at::Tensor buffer = to_write(tensors[0], true, task.copies, "the tensor");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLREDUCE, options.timeout);
  const Elements elements = elements_to_reduce(buffer, options.reduceOp, &operation);
  operation.in = operation.out = buffer.mutable_data_ptr();
  operation.count = count_of(buffer, elements);
  operation.type = elements.type;
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(Tensors& tensors,
                                                            const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "fabring: allreduce_coalesced: the list of tensors is empty");
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    check_type(tensor, tensors[0].scalar_type(), "a tensor of allreduce_coalesced");
    bytes += tensor.nbytes();
  }
  Task task;
  task.type = c10d::OpType::ALLREDUCE_COALESCED;
  task.title = "fabring:all_reduce";
  if (bytes <= most_coalesced_bytes) {
    const at::Tensor buffer = to_write(tensors, task.copies, "tensors");
    for (const auto& [tensor, part] : task.copies) part.copy_(tensor);
    task.kept = {buffer};
  } else {
    for (const at::Tensor& tensor : tensors) task.kept.push_back(to_write(tensor, true, task.copies, "a tensor"));
  }
  for (const at::Tensor& buffer : task.kept) {
    fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLREDUCE, options.timeout);
    const Elements elements = elements_to_reduce(buffer, options.reduceOp, &operation);
    operation.in = operation.out = buffer.mutable_data_ptr();
    operation.count = count_of(buffer, elements);
    operation.type = elements.type;
    task.operations.push_back(operation);
  }
  task.outputs = tensors;
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_one(tensors, "reduce", "tensor");
  check_root(options.rootRank, "reduce");
  Task task;
  task.type = c10d::OpType::REDUCE;
  task.title = "fabring:reduce";
  const bool root = options.rootRank == rank_;
  const at::Tensor buffer =
      root ? to_write(tensors[0], true, task.copies, "the tensor") : to_read(tensors[0], "the tensor");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_REDUCE, options.timeout);
  const Elements elements = elements_to_reduce(buffer, options.reduceOp, &operation);
  operation.in = buffer.const_data_ptr();
  operation.out = root ? buffer.mutable_data_ptr() : nullptr;
  operation.count = count_of(buffer, elements);
  operation.type = elements.type;
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

// ---- gathering ----------------------------------------------------------------------------------------------------

void ProcessGroup::add_allgather(Task& task, const at::Tensor& output, const at::Tensor& input,
                                 std::chrono::milliseconds timeout) const {
  check_type(input, output.scalar_type(), "the input");
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, "fabring: the output of an all_gather of ", size_,
                    " ranks holds ", size_, " times the input, but it is ", describe(output), " for ", describe(input));
  const at::Tensor in = to_read(input, "the input");
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  const Elements elements = elements_to_move(in);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALL_GATHER, timeout);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.count = count_of(in, elements);
  operation.type = elements.type;
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
                                                  const c10d::AllgatherOptions& options) {
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
  const at::Tensor in = to_read(inputs[0], "the input");
  const at::Tensor out = to_write(outputs[0], task.copies, "outputs");
  check_type(in, out.scalar_type(), "the input");
  TORCH_CHECK_VALUE(outputs[0][static_cast<std::size_t>(rank_)].numel() == in.numel(), "fabring: allgather: output ",
                    rank_, " is for this rank's input, ", describe(in), ", but it is ",
                    describe(outputs[0][static_cast<std::size_t>(rank_)]));
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> counts = counts_of(outputs[0], elements);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALL_GATHER, options.timeout);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.counts = counts.data();
  operation.type = elements.type;
  task.kept = {in, out};
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  Task task;
  task.type = c10d::OpType::_ALLGATHER_BASE;
  task.title = "fabring:_all_gather_base";
  check_usable(output, "the output");
  add_allgather(task, output, input, options.timeout);
  task.outputs = {output};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                        const c10d::AllgatherOptions& options) {
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
}

// outputs[rank][i] is what that rank gave as inputs[i].
ProcessGroup::WorkPointer ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
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
}

ProcessGroup::WorkPointer ProcessGroup::gather(TensorLists& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  check_one(inputs, "gather", "input");
  check_root(options.rootRank, "gather");
  Task task;
  task.type = c10d::OpType::GATHER;
  task.title = "fabring:gather";
  const at::Tensor in = to_read(inputs[0], "the input");
  const Elements elements = elements_to_move(in);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_GATHER, options.timeout);
  operation.in = in.const_data_ptr();
  operation.count = count_of(in, elements);
  operation.type = elements.type;
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {in};
  if (options.rootRank == rank_) {
    check_one(outputs, "gather", "list of outputs");
    TORCH_CHECK_VALUE(outputs[0].size() == static_cast<std::size_t>(size_), "fabring: gather from ", size_,
                      " ranks needs as many outputs, not ", outputs[0].size());
    TORCH_CHECK_VALUE(of_one_size(outputs[0], in.numel()), "fabring: gather: every output has the size of the input, ",
                      describe(in));
    const at::Tensor out = to_write(outputs[0], task.copies, "outputs");
    check_type(out, in.scalar_type(), "an output");
    operation.out = out.mutable_data_ptr();
    task.kept.push_back(out);
    task.outputs = outputs[0];
  } else {
    check_none(outputs, "gather");
  }
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

// ---- scattering ---------------------------------------------------------------------------------------------------

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ScatterOptions& options) {
  check_one(outputs, "scatter", "output");
  check_root(options.rootRank, "scatter");
  Task task;
  task.type = c10d::OpType::SCATTER;
  task.title = "fabring:scatter";
  const at::Tensor out = to_write(outputs[0], false, task.copies, "the output");
  const Elements elements = elements_to_move(out);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_SCATTER, options.timeout);
  operation.out = out.mutable_data_ptr();
  operation.count = count_of(out, elements);
  operation.type = elements.type;
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {out};
  if (options.rootRank == rank_) {
    check_one(inputs, "scatter", "list of inputs");
    TORCH_CHECK_VALUE(inputs[0].size() == static_cast<std::size_t>(size_), "fabring: scatter to ", size_,
                      " ranks needs as many inputs, not ", inputs[0].size());
    TORCH_CHECK_VALUE(of_one_size(inputs[0], out.numel()), "fabring: scatter: every input has the size of the output, ",
                      describe(out));
    const at::Tensor in = to_read(inputs[0], "inputs");
    check_type(in, out.scalar_type(), "an input");
    operation.in = in.const_data_ptr();
    task.kept.push_back(in);
  } else {
    check_none(inputs, "scatter");
  }
  task.outputs = outputs;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

void ProcessGroup::add_reduce_scatter(Task& task, const at::Tensor& output, const at::Tensor& input,
                                      const c10d::ReduceScatterOptions& options) const {
  check_usable(output, "the output");
  check_type(input, output.scalar_type(), "the input");
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size_, "fabring: the input of a reduce_scatter of ", size_,
                    " ranks holds ", size_, " times the output, but it is ", describe(input), " for ",
                    describe(output));
  const at::Tensor in = to_read(input, "the input");
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_REDUCE_SCATTER, options.timeout);
  const Elements elements = elements_to_reduce(out, options.reduceOp, &operation);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.count = count_of(out, elements);
  operation.type = elements.type;
  task.kept.insert(task.kept.end(), {in, out});
  task.operations.push_back(operation);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  check_one(outputs, "reduce_scatter", "output");
  check_one(inputs, "reduce_scatter", "list of inputs");
  TORCH_CHECK_VALUE(inputs[0].size() == static_cast<std::size_t>(size_), "fabring: reduce_scatter to ", size_,
                    " ranks needs as many inputs, not ", inputs[0].size());
  check_usable(outputs[0], "the output");
  Task task;
  task.type = c10d::OpType::REDUCE_SCATTER;
  task.title = "fabring:reduce_scatter";
  task.outputs = outputs;
  const at::Tensor in = to_read(inputs[0], "inputs");
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
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_REDUCE_SCATTER, options.timeout);
  const Elements elements = elements_to_reduce(out, options.reduceOp, &operation);
  const std::vector<std::size_t> counts = counts_of(inputs[0], elements);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.counts = counts.data();
  operation.type = elements.type;
  task.kept = {in, out};
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                             const c10d::ReduceScatterOptions& options) {
  Task task;
  task.type = c10d::OpType::_REDUCE_SCATTER_BASE;
  task.title = "fabring:_reduce_scatter_base";
  add_reduce_scatter(task, output, input, options);
  task.outputs = {output};
  return start(std::move(task), options.asyncOp);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                        const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "fabring: reduce_scatter_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  Task task;
  task.type = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
  task.title = "fabring:reduce_scatter";
  for (std::size_t i = 0; i < inputs.size(); ++i) add_reduce_scatter(task, outputs[i], inputs[i], options);
  task.outputs = outputs;
  return start(std::move(task), options.asyncOp);
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
                                                      const c10d::AllToAllOptions& options) {
  Task task;
  task.type = c10d::OpType::ALLTOALL_BASE;
  task.title = "fabring:all_to_all";
  const at::Tensor in = to_read(input, "the input");
  check_type(output, in.scalar_type(), "the output");
  const at::Tensor out = to_write(output, false, task.copies, "the output");
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> in_counts = parts_of(in, input_splits, size_, elements, "the input");
  const std::vector<std::size_t> out_counts = parts_of(out, output_splits, size_, elements, "the output");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLTOALL, options.timeout);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.type = elements.type;
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
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  const auto size = static_cast<std::size_t>(size_);
  TORCH_CHECK_VALUE(inputs.size() == size && outputs.size() == size, "fabring: alltoall of ", size_,
                    " ranks needs as many inputs and outputs, not ", inputs.size(), " and ", outputs.size());
  Task task;
  task.type = c10d::OpType::ALLTOALL;
  task.title = "fabring:all_to_all";
  const at::Tensor in = to_read(inputs, "inputs");
  const at::Tensor out = to_write(outputs, task.copies, "outputs");
  check_type(out, in.scalar_type(), "an output");
  const Elements elements = elements_to_move(in);
  const std::vector<std::size_t> in_counts = counts_of(inputs, elements), out_counts = counts_of(outputs, elements);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLTOALL, options.timeout);
  operation.in = in.const_data_ptr();
  operation.out = out.mutable_data_ptr();
  operation.type = elements.type;
  operation.counts = in_counts.data();
  operation.out_counts = out_counts.data();
  task.kept = {in, out};
  task.outputs = outputs;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
}

// ---- sparse -------------------------------------------------------------------------------------------------------

// Three gatherings in a row: how many elements each rank has, where they are, what they are. They must not be mixed
// with what is called after this, so it is over on return.
ProcessGroup::WorkPointer ProcessGroup::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check_one(tensors, "allreduce", "tensor");
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_TYPE(tensor.layout() == at::kSparse, "fabring: allreduce of a ", tensor.layout(),
                   " tensor is not possible; use sparse_coo");
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "fabring: allreduce of sparse tensors knows SUM only; make them dense for others");
  const at::Tensor mine = tensor.coalesce();
  const auto whole = at::TensorOptions().dtype(at::kLong);
  // Shape and number of elements, so that ranks of other shapes are told apart before anything is summed.
  at::Tensor shape = at::empty({2 + mine.dim()}, whole);
  shape[0] = mine._nnz();
  shape[1] = mine.sparse_dim();
  for (std::int64_t dim = 0; dim < mine.dim(); ++dim) shape[2 + dim] = mine.size(dim);
  const auto gather = [&](const at::Tensor& input, const std::vector<std::int64_t>& rows) {
    TensorLists outputs(1);
    for (const std::int64_t count : rows) {
      std::vector<std::int64_t> sizes = input.sizes().vec();
      sizes[0] = count;
      outputs[0].push_back(at::empty(sizes, input.options()));
    }
    Tensors inputs = {input};
    c10d::AllgatherOptions gathering;
    gathering.timeout = options.timeout;
    gathering.asyncOp = false;
    allgather(outputs, inputs, gathering);
    return outputs[0];
  };
  const auto ranks = static_cast<std::size_t>(size_);
  const Tensors shapes = gather(shape, std::vector<std::int64_t>(ranks, shape.numel()));
  std::vector<std::int64_t> counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    TORCH_CHECK_VALUE(at::equal(shapes[rank].narrow(0, 1, shape.numel() - 1), shape.narrow(0, 1, shape.numel() - 1)),
                      "fabring: allreduce: rank ", rank, " has a sparse tensor of another shape than rank ", rank_,
                      ", whose is ", mine.sizes());
    counts.push_back(shapes[rank][0].item<std::int64_t>());
  }
  const Tensors places = gather(mine.indices().t().contiguous(), counts);
  const Tensors values = gather(mine.values().contiguous(), counts);
  const at::NoGradGuard no_grad;
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(places).t(), at::cat(values), mine.sizes(), mine.options()).coalesce();
  tensor.copy_(sum);
  Task task;
  task.type = c10d::OpType::_ALLREDUCE_SPARSE;
  task.title = "fabring:sparse_all_reduce";
  task.outputs = tensors;
  return start(std::move(task), /*asynchronous=*/true, /*counts=*/false);
}

}  // namespace fabring_torch
