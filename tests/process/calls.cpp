#include "calls.hpp"

#include <array>
#include <numeric>
#include <vector>

namespace rank_program {
namespace {

using namespace fabring;

Status run_as(Communicator& on, const Operation& operation, std::string_view mode) {
  if (mode == "async") return on.start(operation).wait();
  if (mode == "group") {
    const std::array<Operation, 3> group{Operation::barrier(), operation, Operation::barrier()};
    return on.run_group(group);
  }
  if (mode == "prepared") {
    auto prepared = on.prepare(operation);
    return prepared ? prepared->start().wait() : prepared.error();
  }
  return on.run(operation);
}

Operation of_blocks(Collective what, const float* in, float* out, const std::vector<std::size_t>& lengths,
                    std::size_t count, Rank root) {
  const Blocks blocks{lengths, {}};
  constexpr DataType type = DataType::float32;
  const bool equal = lengths.empty();
  switch (what) {
    case Collective::all_gather:
      return equal ? Operation::all_gather(in, out, count, type) : Operation::all_gather_v(in, out, blocks, type);
    case Collective::reduce_scatter:
      return equal ? Operation::reduce_scatter(in, out, count, type, ReduceOp::sum)
                   : Operation::reduce_scatter_v(in, out, blocks, type, ReduceOp::sum);
    case Collective::gather:
      return equal ? Operation::gather(in, out, count, type, root) : Operation::gather_v(in, out, blocks, type, root);
    default:
      return equal ? Operation::scatter(in, out, count, type, root) : Operation::scatter_v(in, out, blocks, type, root);
  }
}

}  // namespace

Called call_once(Communicator on, Collective what, std::string_view mode, std::string_view wrong, std::size_t count,
                 Rank root, std::int32_t tag) {
  const auto ranks = static_cast<std::size_t>(on.size());
  const bool gathers = what == Collective::gather;
  std::vector<float> in(count, static_cast<float>(on.rank() + 1)), out(gathers ? count * ranks : count, 0.0f);
  Operation operation;
  float expected = 0;
  if (what == Collective::broadcast) {
    operation = Operation::broadcast(out.data(), out.data(), count, DataType::float32, root);
    if (on.rank() == root) out = in;
    expected = static_cast<float>(root + 1);
  } else if (gathers) {
    operation = Operation::gather(in.data(), out.data(), count, DataType::float32, root);
  } else if (what == Collective::send) {
    operation = Operation::send(in.data(), count, DataType::float32, root, tag);
  } else if (what == Collective::recv) {
    operation = Operation::recv(out.data(), count, DataType::float32, root, tag);
    expected = static_cast<float>(root + 1);
  } else {
    operation = Operation::allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
    expected = static_cast<float>(ranks * (ranks + 1) / 2);
  }
  std::vector<std::size_t> lengths(ranks + 1, count);
  if (wrong == "root") operation.root = on.size();
  if (wrong == "type") operation.reduction = ReduceOp::bitwise_and;
  if (wrong == "overlap") operation.out = static_cast<float*>(operation.out) + 1, operation.in = out.data();
  if (wrong == "null") operation.in = operation.out = nullptr;
  if (wrong == "count") operation.count = static_cast<std::size_t>(-1) / 2;
  if (wrong == "blocks") operation = Operation::all_gather_v(in.data(), out.data(), {lengths, {}}, DataType::float32);
  Called called{run_as(on, operation, mode), true};
  if (!called.status.ok() || gathers || what == Collective::send) return called;
  for (const float value : out) called.right = called.right && value == expected;
  return called;
}

Called call_of_blocks(Communicator on, Collective what, std::string_view mode, const std::vector<std::size_t>& lengths,
                      std::size_t count, Rank root) {
  const std::size_t all =
      lengths.empty() ? count * static_cast<std::size_t>(on.size()) : std::reduce(lengths.begin(), lengths.end());
  const std::vector<float> in(all, 1.0f);
  std::vector<float> out(all);
  return {run_as(on, of_blocks(what, in.data(), out.data(), lengths, count, root), mode)};
}

}  // namespace rank_program
