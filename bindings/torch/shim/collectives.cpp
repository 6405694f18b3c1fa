// ProcessGroup: what makes tensors alike on all ranks: broadcast, allreduce, reduce.

#include "arguments.hpp"
#include "devices.hpp"

namespace fabring_torch {

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) try {
  check_one(tensors, "broadcast", "tensor");
  check_root(options.rootRank, "broadcast");
  Task task;
  task.type = c10d::OpType::BROADCAST;
  task.title = "fabring:broadcast";
  // The root's is only read, wherever it lies: in a file that is mapped for reading, or saved for a backward pass.
  const at::Tensor buffer = options.rootRank == rank_ ? to_read(tensors[0], "the tensor")
                                                      : to_write(tensors[0], false, task.copies, "the tensor");
  const Elements elements = elements_to_move(buffer);
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_BROADCAST, options.timeout);
  fill(operation, buffer, buffer, elements, buffer);
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) try {
  check_one(tensors, "allreduce", "tensor");
  if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  Task task;
  task.type = c10d::OpType::ALLREDUCE;
  task.title = "fabring:all_reduce";
  const at::Tensor buffer = to_write(tensors[0], true, task.copies, "the tensor");
  fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLREDUCE, options.timeout);
  const Elements elements = elements_to_reduce(buffer, options.reduceOp, &operation);
  fill(operation, buffer, buffer, elements, buffer);
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

namespace {

/// Allreduces, each in place, as one for each type, of all its tensors; in memory of the host. The types come in the
/// order of their first tensors, which is the same on all ranks.
void join_by_type(Task& task) {
  const auto single = std::move(task.operations);
  task.operations.clear();
  task.tensors.reserve(single.size());  // operations point into it
  for (const fabring_operation& first : single) {
    const auto of_type = [&](const fabring_operation& other) { return other.type == first.type; };
    if (std::any_of(task.operations.begin(), task.operations.end(), of_type)) continue;
    fabring_operation joined = first;
    joined.in = joined.out = nullptr;
    joined.count = 0;
    joined.tensors = task.tensors.data() + task.tensors.size();
    for (const fabring_operation& each : single)
      if (of_type(each)) task.tensors.push_back({each.in, each.out, each.count});
    joined.tensor_count = static_cast<std::size_t>(task.tensors.data() + task.tensors.size() - joined.tensors);
    task.operations.push_back(joined);
  }
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(Tensors& tensors,
                                                            const c10d::AllreduceCoalescedOptions& options) try {
  TORCH_CHECK_VALUE(!tensors.empty(), "fabring: allreduce_coalesced: the list of tensors is empty");
  Task task;
  task.type = c10d::OpType::ALLREDUCE_COALESCED;
  task.title = "fabring:all_reduce";
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor buffer = to_write(tensor, true, task.copies, "a tensor of allreduce_coalesced");
    fabring_operation operation = describe_operation(FABRING_COLLECTIVE_ALLREDUCE, options.timeout);
    fill(operation, buffer, buffer, elements_to_reduce(buffer, options.reduceOp, &operation), buffer);
    task.operations.push_back(operation);
    task.kept.push_back(buffer);
  }
  task.outputs = tensors;
  if (!tensors[0].is_cuda()) join_by_type(task);
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) try {
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
  fill(operation, buffer, root ? buffer : at::Tensor(), elements, buffer);
  operation.root = static_cast<std::int32_t>(options.rootRank);
  task.kept = {buffer};
  task.outputs = tensors;
  task.operations = {operation};
  return start(std::move(task), options.asyncOp);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

// ---- sparse -------------------------------------------------------------------------------------------------------

namespace {

/// Torch gives backends view_as_real of a complex tensor. That of a sparse one shares its elements, but has a table of
/// them to itself, and the sum is another table: the complex tensor, which is to have it too. None for others.
at::Tensor complex_behind(const at::Tensor& tensor) {
  if (!tensor.is_view() || tensor.is_complex()) return {};
  at::Tensor base(tensor._base());
  if (!base.is_sparse() || !base.is_complex() || base.dim() + 1 != tensor.dim()) return {};
  TORCH_CHECK_VALUE(
      base.sizes().equals(tensor.sizes().slice(0, tensor.dim() - 1)) && base._values().is_alias_of(tensor._values()),
      "fabring: allreduce: the sparse complex tensor is a view of another, and torch gives only that one "
      "to backends; call clone() first");
  return base;
}

}  // namespace

// Three gatherings in a row: how many elements each rank has, where they are, what they are. They must not be mixed
// with what is called after this, so it is over on return.
ProcessGroup::WorkPointer ProcessGroup::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) try {
  check_one(tensors, "allreduce", "tensor");
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_TYPE(tensor.layout() == at::kSparse, "fabring: allreduce of a ", tensor.layout(),
                   " tensor is not possible; use sparse_coo");
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "fabring: allreduce of sparse tensors knows SUM only; make them dense for others");
  at::Tensor behind = complex_behind(tensor);
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
  if (behind.defined()) behind.copy_(at::view_as_complex(sum));
  if (tensor.is_cuda()) finish_stream(tensor.device());  // whatever stream it is waited for on
  Task task;
  task.type = c10d::OpType::_ALLREDUCE_SPARSE;
  task.title = "fabring:sparse_all_reduce";
  task.outputs = tensors;
  return start(std::move(task), /*asynchronous=*/true, /*counts=*/false);
} catch (const c10::Error& thrown) {
  tell_refused(thrown);
  throw;
}

}  // namespace fabring_torch
