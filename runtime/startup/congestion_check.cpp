#include "runtime/startup/congestion_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/net/net.hpp"

namespace fabring {
namespace {

// Linux's own, as modules or built in; a kernel may have others.
constexpr std::string_view of_linux[] = {"bbr",      "bic",   "cdg",      "cubic",    "dctcp", "highspeed",
                                         "htcp",     "hybla", "illinois", "lp",       "nv",    "reno",
                                         "scalable", "vegas", "veno",     "westwood", "yeah"};

bool is_left_to_us(const Config& config) {
  return config.congestion_control.empty() || config.congestion_control == "auto";
}

}  // namespace

Status check_congestion_name(const Config& config) {
  const std::string& wanted = config.congestion_control;
  if (is_left_to_us(config) || std::find(std::begin(of_linux), std::end(of_linux), wanted) != std::end(of_linux))
    return {};
  const Status tried = net::try_congestion_control(wanted);
  if (tried.code() != ErrorCode::unsupported) return {};
  const std::vector<std::string> available = net::available_congestion_controls();
  if (std::find(available.begin(), available.end(), wanted) != available.end()) return {};  // for root only
  std::vector<std::string_view> names(available.begin(), available.end());
  names.insert(names.end(), std::begin(of_linux), std::end(of_linux));
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("FABRING_CONGESTION_CONTROL='{}': the kernel has no congestion control '{}'{}; there are: auto, {}",
                  wanted, wanted, did_you_mean(wanted, names), fmt::join(available, ", ")));
}

Status check_congestion_control(const Config& config) {
  if (is_left_to_us(config)) return {};
  return net::try_congestion_control(config.congestion_control).with_prefix("FABRING_CONGESTION_CONTROL: ");
}

}  // namespace fabring
