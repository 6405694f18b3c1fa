#include "tools/fabring/launch/core_binding.hpp"

#include <algorithm>

namespace fabring::tools {
namespace {

using Processors = std::vector<int>;

Processors joined(const std::vector<Processors>& cores) {
  Processors all;
  for (const Processors& core : cores) all.insert(all.end(), core.begin(), core.end());
  return all;
}

// The part of one of `count` ranks.
template <class Item>
std::vector<Item> share_of(const std::vector<Item>& items, std::size_t rank, std::size_t count) {
  return {items.begin() + static_cast<std::ptrdiff_t>(rank * items.size() / count),
          items.begin() + static_cast<std::ptrdiff_t>((rank + 1) * items.size() / count)};
}

}  // namespace

std::vector<std::vector<int>> core_bindings(Binding binding, int ranks, const std::vector<std::vector<int>>& cores,
                                            const std::vector<std::vector<int>>& numa) {
  const auto count = static_cast<std::size_t>(ranks);
  const Processors allowed = joined(cores);
  std::vector<Processors> result(count);
  if (binding == Binding::core && allowed.size() >= count) {
    // Neighbouring ranks talk most: each gets its share of neighbouring cores, whole ones where there are enough, since
    // threads of a core take its time from each other. With more ranks than processors binding would only forbid the
    // kernel to spread them.
    for (std::size_t rank = 0; rank < count; ++rank) {
      result[rank] = cores.size() >= count ? joined(share_of(cores, rank, count)) : share_of(allowed, rank, count);
      std::sort(result[rank].begin(), result[rank].end());
    }
  }
  if (binding == Binding::numa) {
    std::vector<Processors> usable;
    for (const Processors& node : numa) {
      Processors cpus;
      for (int cpu : node)
        if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) cpus.push_back(cpu);
      if (!cpus.empty()) usable.push_back(std::move(cpus));
    }
    if (usable.size() > 1)
      for (std::size_t rank = 0; rank < count; ++rank)
        result[rank] = usable[rank * usable.size() / count % usable.size()];
  }
  return result;
}

}  // namespace fabring::tools
