#include "runtime/startup/probe_samples.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace fabring {
namespace {

constexpr std::size_t kibi = std::size_t{1} << 10;
constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t most_memory = 512 * mebi;  // of all ranks of a node
constexpr std::array<std::size_t, 8> sizes_of_chosen{mebi,      16 * mebi, 256 * kibi, 4 * mebi,
                                                     16 * kibi, kibi,      8,          32 * mebi};

}  // namespace

std::vector<ProbeSample> probe_samples(ProbeScope scope) {
  std::vector<ProbeSample> list;
  const auto of_all = [&](std::size_t bytes, std::initializer_list<Algorithm> algorithms) {
    for (const Algorithm algorithm : algorithms) list.push_back({Collective::allreduce, algorithm, bytes});
  };
  using enum Algorithm;
  if (!scope.whole) {  // what bytes cost is known from the links
    of_all(8, {recursive_doubling, direct_one_shot, hierarchical});
    of_all(kibi, {recursive_doubling, direct_two_shot, hierarchical});
    of_all(8, {ring});
    return list;
  }
  of_all(8, {recursive_doubling, ring, direct_one_shot});
  of_all(64 * kibi, {recursive_doubling, direct_two_shot, ring, hierarchical});
  of_all(mebi, {ring, recursive_doubling, direct_two_shot, hierarchical});
  list.push_back({Collective::broadcast, binomial, mebi});
  of_all(4 * kibi, {recursive_doubling, direct_two_shot});
  of_all(4 * mebi, {ring, recursive_doubling});
  of_all(256 * kibi, {ring, recursive_doubling, direct_two_shot});
  list.push_back({Collective::broadcast, chain, 4 * mebi});
  of_all(16 * mebi, {ring});
  return list;
}

std::span<const std::size_t> chosen_sizes() { return sizes_of_chosen; }

std::size_t longest_probed(ProbeScope scope, int ranks_of_node) {
  if (!scope.whole) return kibi;
  const std::size_t each = most_memory / static_cast<std::size_t>(std::max(1, ranks_of_node));
  return std::clamp(each, mebi, 32 * mebi);
}

}  // namespace fabring
