#pragma once
// Sum: an allreduce whose buffers live as long as it.

#include <cstdint>
#include <vector>

#include "fabring/communicator.hpp"
#include "tests/support/exact_data.hpp"

namespace fabring::fixture {

struct Sum {
  Sum(int rank, int ranks, std::size_t count, std::uint64_t salt)
      : in(input_of(DataType::float32, ReduceOp::sum, rank, ranks, count, salt)),
        out(in.size()),
        expected(output_of(DataType::float32, ReduceOp::sum, ranks, count, salt)) {}
  std::size_t count() const { return in.size() / sizeof(float); }
  Status run(Communicator& on) {
    return on.allreduce(in.data(), out.data(), count(), DataType::float32, ReduceOp::sum);
  }
  Work begin(Communicator& on) {
    return on.allreduce_async(in.data(), out.data(), count(), DataType::float32, ReduceOp::sum);
  }
  bool right() const { return out == expected; }
  std::vector<std::byte> in, out, expected;
};

}  // namespace fabring::fixture
