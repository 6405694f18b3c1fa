#pragma once
// fabring_operation, checked as far as C lets more pass than C++ does, as an Operation.

#include <vector>

#include "fabring/communicator.hpp"
#include "fabring/fabring.h"

namespace fabring::c_api {

/// The numbers of an enumeration, checked. Errors: invalid_argument with the number.
Status to_data_type(fabring_data_type from, DataType& into);
Status to_reduce_op(fabring_reduce_op from, ReduceOp& into);

/// The lengths and places stay the caller's, for a communicator of `ranks`.
Result<Operation> to_operation(const fabring_operation* from, int ranks);

/// An array as the caller's compiler laid it out: its elements have the size that the first one gives.
Result<std::vector<Operation>> to_operations(const fabring_operation* from, std::size_t count, int ranks);

}  // namespace fabring::c_api
