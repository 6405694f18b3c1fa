#include "runtime/startup/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/startup/agreed_lengths.hpp"

namespace fabring {
namespace {

// Of several cards each message takes the one that is ready, which is not known before it is asked for. Cards that
// place messages themselves cost no processor time for them (EFA): nothing of this was measured there.
bool lands_ahead(const std::vector<Identity>& ranks, const CommonPath& path, const Agreed& agreed) {
  if (agreed.shares_memory || agreed.some_have_gpus || path.cards) return false;
  return agreed.through_loopback ||
         std::all_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.rails <= 1; });
}

Reach reach_of(const CommonPath& path, bool lent) {
  if (lent) return Reach::gpu_memory;
  if (path.shared_memory || path.one_process) return Reach::shared_memory;
  return path.libfabric ? Reach::libfabric : Reach::network;
}

}  // namespace

Agreement agree(const std::vector<Identity>& ranks, const CommonPath& path) {
  const int world_size = static_cast<int>(ranks.size());
  Agreement agreed;
  agreed.segment_bytes = segment_of(ranks);
  agreed.long_segment_bytes = long_segment_of(ranks);
  agreed.least_scratch_bytes = least_scratch_of(ranks);
  agreed.depth_for_cards = static_cast<std::uint32_t>(path.depth);
  agreed.some_have_gpus = std::any_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.gpus; });
  agreed.shares_memory = path.shared_memory;
  agreed.through_loopback = !path.shared_memory && on_one_host(ranks);
  if (path.shared_memory) {
    agreed.lent_segment_bytes = lent_segment_of(ranks, path.node_of);
    agreed.unasked_limit = unasked_limit_of(ranks, path.node_of);
  } else {
    agreed.parcels = parcels_over_network(world_size, agreed.least_scratch_bytes);
  }
  if (lands_ahead(ranks, path, agreed))
    agreed.parcels.landings = landings_over_network(world_size, agreed.through_loopback, agreed.least_scratch_bytes);
  agreed.reach = reach_of(path, path.shared_memory && all_lend(ranks, path.node_of));
  return agreed;
}

std::vector<std::string> describe(const Agreement& agreed, bool begun) {
  std::vector<std::string> lines;
  if (agreed.lent_segment_bytes != 0)
    lines.push_back(
        fmt::format("messages of up to {} KiB: every rank may use a GPU, and each message of its memory costs a launch "
                    "or two{}",
                    agreed.lent_segment_bytes >> 10,
                    begun ? "" : " (this rank had not begun to use one; where all have, they may be longer)"));
  if (agreed.unasked_limit != 0)
    lines.push_back(
        fmt::format("messages above {} KiB are asked for, also of memory of the host: GPU memory can "
                    "then be read where it is",
                    agreed.unasked_limit >> 10));
  return lines;
}

}  // namespace fabring
