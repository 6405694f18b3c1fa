#pragma once
// Fashion-MNIST as Debian ships it (package dataset-fashion-mnist): gzipped IDX files. Nothing in them is believed
// before it is checked. The format is described at http://yann.lecun.com/exdb/mnist/.

#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace train {

inline constexpr int pixels = 28 * 28;
inline constexpr int classes = 10;
inline constexpr const char* default_directory = "/usr/share/datasets/fashion-mnist";

struct Dataset {
  std::vector<std::uint8_t> images;  ///< `pixels` bytes each
  std::vector<std::uint8_t> labels;  ///< below `classes`
  int size() const { return static_cast<int>(labels.size()); }
};

/// Reads `prefix`-images-idx3-ubyte.gz and `prefix`-labels-idx1-ubyte.gz ("train" or "t10k"), the first `limit` images
/// of them (0: all). Errors: unavailable (no such file: names the package), invalid_argument (not what it should be).
fabring::Result<Dataset> load(const std::string& directory, const std::string& prefix, int limit);

}  // namespace train
