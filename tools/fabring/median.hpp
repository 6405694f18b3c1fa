#pragma once
#include <algorithm>
#include <vector>

namespace fabring::tools {

/// 0 without values; of an even number of them the mean of the two in the middle.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace fabring::tools
