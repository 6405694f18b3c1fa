#pragma once
// The matrix that runs every collective by every algorithm it has, as parameters of a test.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/collective_data.hpp"

namespace fabring::fixture {

struct AlgorithmCase {
  Collective collective;
  Algorithm algorithm;
};

std::vector<AlgorithmCase> algorithm_cases();

/// Not every algorithm has every number of ranks, or blocks of different lengths.
bool is_possible(const AlgorithmCase& by, const Request& what, int ranks);

/// "allreduce_by_ring"; for INSTANTIATE_TEST_SUITE_P, also of what is derived from a case.
template <class Case>
std::string name_of_case(const ::testing::TestParamInfo<Case>& of) {
  return std::string(name(of.param.collective)) + "_by_" + std::string(name(of.param.algorithm));
}

}  // namespace fabring::fixture
