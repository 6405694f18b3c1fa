#include "topology/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>

#include "topology/cpu_quota.hpp"

namespace fabring {
namespace {

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::optional<long long> leading_number(std::string_view text) {
  long long value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace

std::vector<int> affinity_cpus() {
  // The kernel refuses a mask smaller than its own; hosts with more than 1024 processors exist.
  for (int size = 1024; size <= 1 << 20; size *= 4) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(size));
    if (mask == nullptr) return {};
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    std::vector<int> cpus;
    if (::sched_getaffinity(0, bytes, mask) == 0)
      for (int cpu = 0; cpu < size; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask)) cpus.push_back(cpu);
    CPU_FREE(mask);
    if (!cpus.empty()) return cpus;
  }
  return {};
}

int allowed_cpus() {
  const int cpus = static_cast<int>(affinity_cpus().size());
  const auto quota = tightest(own_cpu_quotas());
  return std::max(quota ? std::min(cpus, static_cast<int>(*quota)) : cpus, 1);
}

std::vector<int> parse_cpu_list(std::string_view text) {
  constexpr long long most = 1 << 16;  // kernels are built for 8192 at most
  std::vector<int> cpus;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t dash = item.find('-');
    const auto first = leading_number(item);
    const auto last = dash == std::string_view::npos ? first : leading_number(item.substr(dash + 1));
    const long long least = cpus.empty() ? 0 : cpus.back() + 1;
    if (!first || !last || *first < least || *last < *first || *last >= most) return {};
    for (long long cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return cpus;
}

std::string show_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += '-' + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

LastCache last_cache(int cpu, const std::filesystem::path& root) {
  LastCache last;
  long long highest = 0;
  const std::filesystem::path caches = root / ("cpu" + std::to_string(cpu)) / "cache";
  for (int index = 0; index < 16; ++index) {
    const std::filesystem::path folder = caches / ("index" + std::to_string(index));
    const auto level = read_text(folder / "level"), size = read_text(folder / "size");
    if (!level || !size) break;
    const auto number = leading_number(*level), kib = leading_number(*size);
    constexpr long long most_kib = 1 << 24;
    if (!number || !kib || *kib <= 0 || *kib > most_kib || size->find('K') == std::string::npos || *number <= highest)
      continue;
    highest = *number;
    const auto shared = read_text(folder / "shared_cpu_list");
    const std::size_t cpus = shared ? parse_cpu_list(*shared).size() : 0;
    last = {static_cast<std::size_t>(*kib) << 10, std::max(1, static_cast<int>(cpus))};
  }
  return last;
}

std::size_t share_of_cache(const LastCache& cache, int ranks, int cpus) {
  const int beside = std::max(1, (ranks * std::min(cache.cpus, cpus) + cpus - 1) / std::max(cpus, 1));
  return cache.bytes / static_cast<std::size_t>(beside);
}

std::vector<std::vector<int>> numa_nodes() {
  std::vector<std::vector<int>> nodes;
  const std::filesystem::path folder = "/sys/devices/system/node";
  if (const auto online = read_text(folder / "online"))
    for (int node : parse_cpu_list(*online))
      if (const auto list = read_text(folder / ("node" + std::to_string(node)) / "cpulist"))
        if (std::vector<int> cpus = parse_cpu_list(*list); !cpus.empty()) nodes.push_back(std::move(cpus));
  if (nodes.empty()) nodes.push_back(affinity_cpus());
  return nodes;
}

}  // namespace fabring
