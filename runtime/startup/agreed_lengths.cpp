#include "runtime/startup/agreed_lengths.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "collectives/tiling.hpp"
#include "runtime/base/settings.hpp"

namespace fabring {
namespace {

constexpr std::size_t page = 4096;

bool is_one_node(const std::vector<int>& node_of) {
  return std::adjacent_find(node_of.begin(), node_of.end(), std::not_equal_to<>()) == node_of.end();
}

}  // namespace

std::size_t segment_of(const std::vector<Identity>& ranks) {
  constexpr std::size_t smallest = 64;  // as the setting's
  std::size_t segment = static_cast<std::size_t>(ranks[0].segment_bytes);
  if (segment != 0) return segment;
  for (const Identity& rank : ranks) {
    const std::size_t fits = std::max(static_cast<std::size_t>(rank.scratch_bytes) / (2 * ranks.size()), smallest);
    if (rank.scratch_bytes != 0 && fits < TilingRules().segment_bytes && (segment == 0 || fits < segment))
      segment = fits;
  }
  return segment;
}

std::size_t least_scratch_of(const std::vector<Identity>& ranks) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const Identity& rank : ranks)
    least =
        std::min(least, rank.scratch_bytes != 0 ? static_cast<std::size_t>(rank.scratch_bytes) : scratch_budget({}));
  return least;
}

std::size_t long_segment_of(const std::vector<Identity>& ranks) {
  if (ranks[0].segment_bytes != 0 || on_one_host(ranks)) return 0;
  return std::min(least_scratch_of(ranks), scratch_budget({})) / (2 * most_reduce_slots);
}

std::size_t longest_lent(const Config& config, GpuUse use) {
  if (use == GpuUse::none || config.gpu_path == "staged") return 0;
  // In memory of the host messages of 1 MiB cost a fifth more than the usual ones, longer ones twice as much.
  const std::size_t most = (use == GpuUse::begun ? std::size_t{8} : 1) << 20;
  const auto ranks = static_cast<std::size_t>(config.world_size);
  const std::size_t fits = std::min({most, scratch_budget(config) / (2 * ranks), staging_budget(config) / (3 * ranks)});
  return fits > TilingRules().segment_bytes ? fits / page * page : 0;
}

std::size_t lent_segment_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of) {
  if (ranks[0].segment_bytes != 0 || !is_one_node(node_of)) return 0;
  std::uint64_t least = ranks[0].lent_bytes;
  for (const Identity& rank : ranks) least = std::min(least, rank.lent_bytes);
  return least > TilingRules().segment_bytes ? static_cast<std::size_t>(least) : 0;
}

bool would_lend(const Config& config, GpuUse use, bool has_kernels) {
  return use == GpuUse::begun && has_kernels && config.gpu_path != "staged";
}

bool all_lend(const std::vector<Identity>& ranks, const std::vector<int>& node_of) {
  return is_one_node(node_of) &&
         std::all_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.lends; });
}

std::size_t unasked_limit_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of) {
  return ranks[0].segment_bytes == 0 && all_lend(ranks, node_of) ? unasked_between_gpus : 0;
}

}  // namespace fabring
