#include "collectives/reduce/reduce.hpp"

#include <cstring>

#include "collectives/reduce/fold.hpp"
#include "runtime/base/check.hpp"

namespace fabring {

void reduce(DataType type, ReduceOp op, void* to, std::span<const void* const> sources, std::size_t count) {
  FABRING_CHECK(!sources.empty());
  if (count == 0) return;
  if (sources.size() == 1) {
    if (to != sources[0]) std::memcpy(to, sources[0], count * size_of(type));
    return;
  }
  const FoldArguments arguments{type, op, to, sources.data(), sources.size(), count};
  switch (type) {
    case DataType::float64:
    case DataType::float32:
      return fold_floats(arguments);
    case DataType::float16:
    case DataType::bfloat16:
      return fold_halves(arguments);
    default:
      return fold_integers(arguments);
  }
}

}  // namespace fabring
