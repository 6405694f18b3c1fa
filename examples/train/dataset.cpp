#include "dataset.hpp"

#include <zlib.h>

#include <memory>

namespace train {
namespace {

using fabring::ErrorCode;
using fabring::Result;
using fabring::Status;

// What is left of a gzipped file after its IDX header: one byte per value, `values_per_item` of them per item. The
// header is a type (8: unsigned byte) and a number of dimensions, then each dimension, big-endian.
Result<std::vector<std::uint8_t>> read_idx(const std::string& path, const std::vector<std::uint32_t>& item_shape) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) {
    return Status(ErrorCode::unavailable, "cannot open " + path +
                                              "; install the package dataset-fashion-mnist, or name "
                                              "another directory with --data");
  }
  const auto wrong = [&path](const std::string& what) {
    return Status(ErrorCode::invalid_argument, path + " is not a Fashion-MNIST file: " + what);
  };
  const auto read_word = [&file](std::uint32_t& word) {
    unsigned char bytes[4];
    if (gzread(file.get(), bytes, 4) != 4) return false;
    word = std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
    return true;
  };
  std::uint32_t magic = 0, items = 0, extent = 0;
  if (!read_word(magic) || magic != 0x800 + 1 + item_shape.size())
    return wrong("its first four bytes are not an IDX header");
  if (!read_word(items) || items == 0 || items > 1'000'000) return wrong(std::to_string(items) + " items");
  std::size_t bytes = items;
  for (const std::uint32_t expected : item_shape) {
    if (!read_word(extent) || extent != expected) return wrong("its images are not 28 x 28");
    bytes *= expected;
  }
  std::vector<std::uint8_t> values(bytes);
  if (gzread(file.get(), values.data(), static_cast<unsigned>(bytes)) != static_cast<int>(bytes)) {
    return wrong("it ends before item " + std::to_string(items));
  }
  if (gzgetc(file.get()) != -1) return wrong("it goes on after item " + std::to_string(items));
  return values;
}

}  // namespace

Result<Dataset> load(const std::string& directory, const std::string& prefix, int limit) {
  const std::string start = directory + "/" + prefix;
  Result<std::vector<std::uint8_t>> images = read_idx(start + "-images-idx3-ubyte.gz", {28, 28});
  if (!images) return images.error();
  Result<std::vector<std::uint8_t>> labels = read_idx(start + "-labels-idx1-ubyte.gz", {});
  if (!labels) return labels.error();
  if (images->size() != labels->size() * pixels) {
    return Status(ErrorCode::invalid_argument, start + "-*: " + std::to_string(images->size() / pixels) +
                                                   " images but " + std::to_string(labels->size()) + " labels");
  }
  for (const std::uint8_t label : *labels) {
    if (label >= classes) {
      return Status(ErrorCode::invalid_argument, start + "-labels: a label is " + std::to_string(label) + ", above 9");
    }
  }
  if (limit > 0 && static_cast<std::size_t>(limit) < labels->size()) {
    labels->resize(static_cast<std::size_t>(limit));
    images->resize(labels->size() * pixels);
  }
  return Dataset{std::move(*images), std::move(*labels)};
}

}  // namespace train
