#include <array>
#include <string>

#include "collectives/algorithms.hpp"

namespace fabring {
namespace {

struct Entry {
  Algorithm algorithm;
  std::string_view name;
};
// In the order of the enumeration.
constexpr std::array names_of_algorithms{
    Entry{Algorithm::ring, "ring"},
    Entry{Algorithm::hierarchical, "hierarchical"},
    Entry{Algorithm::recursive_doubling, "recursive_doubling"},
    Entry{Algorithm::direct_one_shot, "direct_one_shot"},
    Entry{Algorithm::direct_two_shot, "direct_two_shot"},
    Entry{Algorithm::circulant, "circulant"},
    Entry{Algorithm::halving_doubling, "halving_doubling"},
    Entry{Algorithm::binomial, "binomial"},
    Entry{Algorithm::double_tree, "double_tree"},
    Entry{Algorithm::chain, "chain"},
    Entry{Algorithm::bruck, "bruck"},
    Entry{Algorithm::dissemination, "dissemination"},
    Entry{Algorithm::pairwise, "pairwise"},
    Entry{Algorithm::fold, "fold"},
    Entry{Algorithm::star, "star"},
};
constexpr auto algorithms = [] {
  std::array<Algorithm, names_of_algorithms.size()> all{};
  for (std::size_t i = 0; i < names_of_algorithms.size(); ++i) all[i] = names_of_algorithms[i].algorithm;
  return all;
}();

}  // namespace

std::string_view name(Algorithm algorithm) {
  for (const Entry& entry : names_of_algorithms) {
    if (entry.algorithm == algorithm) return entry.name;
  }
  return "unknown";
}

std::optional<Algorithm> parse_algorithm(std::string_view text) {
  if (text == "direct") return Algorithm::direct_two_shot;
  for (const Entry& entry : names_of_algorithms) {
    if (entry.name == text) return entry.algorithm;
  }
  return std::nullopt;
}

std::optional<Algorithm> parse_algorithm(std::string_view text, Collective collective) {
  auto algorithm = parse_algorithm(text);
  if (text == "direct" && collective != Collective::allreduce) algorithm = Algorithm::direct_one_shot;
  return algorithm && has_algorithm(collective, *algorithm) ? algorithm : std::nullopt;
}

std::span<const Algorithm> all_algorithms() { return algorithms; }

}  // namespace fabring
