#pragma once
// fabring_operation, checked as far as C lets more pass than C++ does, as an Operation.

#include <deque>
#include <vector>

#include "fabring/communicator.hpp"
#include "fabring/fabring.h"

namespace fabring::c_api {

/// Operations of a group, or tensors of a list: larger numbers are slips.
inline constexpr std::size_t most_of_group = std::size_t{1} << 20;

/// The numbers of an enumeration, checked. Errors: invalid_argument with the number.
Status to_data_type(fabring_data_type from, DataType& into);
Status to_reduce_op(fabring_reduce_op from, ReduceOp& into);

/// The tensors of a list. Errors: invalid_argument.
Result<std::vector<Tensor>> to_tensors(const fabring_tensor* from, std::size_t count);

/// Lists of tensors, which operations refer to.
using TensorLists = std::deque<std::vector<Tensor>>;

/// The lengths and places stay the caller's, for a communicator of `ranks`; tensors go to `lists`.
Result<Operation> to_operation(const fabring_operation* from, int ranks, TensorLists& lists);

/// Of one that was refused, what its refusal is told by: as much as it has. Its collective is none of ours where it
/// cannot be read.
Operation outline_of(const fabring_operation* from);
/// The error with the name of that collective, if it has none.
Status in_collective(const Operation& outline, const Status& why);

/// An array as the caller's compiler laid it out: its elements have the size that the first one gives.
Result<std::vector<Operation>> to_operations(const fabring_operation* from, std::size_t count, int ranks,
                                             TensorLists& lists);
/// outline_of() each of them, as far as they are an array.
std::vector<Operation> outlines_of(const fabring_operation* from, std::size_t count);

}  // namespace fabring::c_api
