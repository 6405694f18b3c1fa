#include "topology/cpu_quota.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "topology/control_groups.hpp"
#include "topology/host_files.hpp"

namespace fabring {
namespace {

std::optional<double> ratio(std::optional<long long> quota, std::optional<long long> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<long long> whole_number(std::string_view text) {
  long long value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<double> quota_of(const HostFiles& files, const ControlGroup& group) {
  if (!group.v2)
    return ratio(files.number((group.folder / "cpu.cfs_quota_us").string()),
                 files.number((group.folder / "cpu.cfs_period_us").string()));
  const auto text = files.text((group.folder / "cpu.max").string());
  return text ? parse_cpu_max(*text) : std::nullopt;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  return ratio(whole_number(text.substr(0, blank)), whole_number(text.substr(blank + 1)));
}

std::vector<CpuQuota> cpu_quotas(std::string_view cgroup_file, const std::filesystem::path& root) {
  constexpr double most = 1e6;
  const HostFiles files(root);
  std::vector<CpuQuota> quotas;
  for (const ControlGroup& group : control_groups(cgroup_file, "cpu")) {
    const auto cpus = quota_of(files, group);
    struct stat folder {};
    if (!cpus || ::stat((root / group.folder).c_str(), &folder) != 0) continue;
    const double thousandths = std::round(std::min(*cpus, most) * 1000);
    quotas.push_back({std::to_string(folder.st_dev) + "." + std::to_string(folder.st_ino),
                      std::max(static_cast<std::uint32_t>(thousandths), 1u)});
  }
  return quotas;
}

std::vector<CpuQuota> own_cpu_quotas() {
  return cpu_quotas(HostFiles().text("proc/self/cgroup").value_or(""), "/sys/fs/cgroup");
}

std::optional<double> tightest(const std::vector<CpuQuota>& quotas) {
  const auto least = std::ranges::min_element(quotas, {}, &CpuQuota::millicpus);
  if (least == quotas.end()) return std::nullopt;
  return least->millicpus / 1000.0;
}

}  // namespace fabring
