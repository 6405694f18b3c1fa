#pragma once
// The gradients of known networks: the shapes of their parameters, computed from the architecture, in the order in
// which a backward pass produces them (the last layer first).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

struct Gradient {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint64_t elements() const;
};

/// Of resnet50, vgg16, bert-base or gpt2; or of "1000x256": so many tensors of so many elements. Errors:
/// invalid_argument, with the nearest name.
Result<std::vector<Gradient>> model_gradients(std::string_view model);

std::uint64_t total_elements(std::span<const Gradient> gradients);

/// Neighbouring gradients fused until a bucket has at least `bytes`: bytes of each bucket, first produced first.
std::vector<std::uint64_t> fused_buckets(std::span<const Gradient> gradients, std::uint64_t element_bytes,
                                         std::uint64_t bytes);

}  // namespace fabring::tools
