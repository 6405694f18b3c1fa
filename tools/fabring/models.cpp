#include "tools/fabring/models.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring::tools {
namespace {

constexpr std::array<std::string_view, 4> known_models{"resnet50", "vgg16", "bert-base", "gpt2"};

/// Collects parameters in forward order.
class Network {
 public:
  void add(const std::string& name, std::vector<std::int64_t> shape) { list_.push_back({name, std::move(shape)}); }
  void convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, bool bias) {
    add(name + ".weight", {out, in, kernel, kernel});
    if (bias) add(name + ".bias", {out});
  }
  void norm(const std::string& name, std::int64_t features) {
    add(name + ".weight", {features});
    add(name + ".bias", {features});
  }
  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  std::vector<Gradient> backward() && {
    std::reverse(list_.begin(), list_.end());
    return std::move(list_);
  }

 private:
  std::vector<Gradient> list_;
};

// Bottleneck blocks 3, 4, 6, 3 of widths 64 to 512, each widened four times; the first of a stage projects its
// shortcut.
std::vector<Gradient> resnet50() {
  Network network;
  network.convolution("conv1", 3, 64, 7, false);
  network.norm("bn1", 64);
  std::int64_t in = 64;
  const std::array<int, 4> blocks{3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64LL << stage;
    for (int block = 0; block < blocks[static_cast<std::size_t>(stage)]; ++block) {
      const std::string prefix = "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      network.convolution(prefix + "conv1", in, width, 1, false);
      network.norm(prefix + "bn1", width);
      network.convolution(prefix + "conv2", width, width, 3, false);
      network.norm(prefix + "bn2", width);
      network.convolution(prefix + "conv3", width, 4 * width, 1, false);
      network.norm(prefix + "bn3", 4 * width);
      if (block == 0) {
        network.convolution(prefix + "downsample.0", in, 4 * width, 1, false);
        network.norm(prefix + "downsample.1", 4 * width);
      }
      in = 4 * width;
    }
  }
  network.linear("fc", in, 1000);
  return std::move(network).backward();
}

std::vector<Gradient> vgg16() {
  Network network;
  std::int64_t in = 3;
  int layer = 0;
  for (const auto& [width, convolutions] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < convolutions; ++i, layer += 2) {  // an activation after each
      network.convolution("features." + std::to_string(layer), in, width, 3, true);
      in = width;
    }
    ++layer;  // pooling
  }
  network.linear("classifier.0", 512 * 7 * 7, 4096);
  network.linear("classifier.3", 4096, 4096);
  network.linear("classifier.6", 4096, 1000);
  return std::move(network).backward();
}

std::vector<Gradient> bert_base() {
  constexpr std::int64_t hidden = 768;
  Network network;
  network.add("embeddings.word_embeddings.weight", {30522, hidden});
  network.add("embeddings.position_embeddings.weight", {512, hidden});
  network.add("embeddings.token_type_embeddings.weight", {2, hidden});
  network.norm("embeddings.LayerNorm", hidden);
  for (int layer = 0; layer < 12; ++layer) {
    const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
    for (const char* each : {"query", "key", "value"})
      network.linear(prefix + "attention.self." + each, hidden, hidden);
    network.linear(prefix + "attention.output.dense", hidden, hidden);
    network.norm(prefix + "attention.output.LayerNorm", hidden);
    network.linear(prefix + "intermediate.dense", hidden, 4 * hidden);
    network.linear(prefix + "output.dense", 4 * hidden, hidden);
    network.norm(prefix + "output.LayerNorm", hidden);
  }
  network.linear("pooler.dense", hidden, hidden);
  return std::move(network).backward();
}

std::vector<Gradient> gpt2() {
  constexpr std::int64_t hidden = 768;
  Network network;
  network.add("wte.weight", {50257, hidden});  // the output layer shares it
  network.add("wpe.weight", {1024, hidden});
  for (int layer = 0; layer < 12; ++layer) {
    const std::string prefix = "h." + std::to_string(layer) + ".";
    network.norm(prefix + "ln_1", hidden);
    network.linear(prefix + "attn.c_attn", hidden, 3 * hidden);
    network.linear(prefix + "attn.c_proj", hidden, hidden);
    network.norm(prefix + "ln_2", hidden);
    network.linear(prefix + "mlp.c_fc", hidden, 4 * hidden);
    network.linear(prefix + "mlp.c_proj", 4 * hidden, hidden);
  }
  network.norm("ln_f", hidden);
  return std::move(network).backward();
}

// "1000x256": so many tensors of so many elements.
std::optional<std::vector<Gradient>> equal_tensors(std::string_view model) {
  const std::size_t cross = model.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const auto tensors = parse_integer(model.substr(0, cross), 1, 1 << 20);
  const auto elements = parse_integer(model.substr(cross + 1), 1, std::int64_t{1} << 30);
  if (!tensors || !elements) return std::nullopt;
  std::vector<Gradient> list;
  for (std::int64_t i = 0; i < *tensors; ++i) list.push_back({"tensor " + std::to_string(i), {*elements}});
  return list;
}

}  // namespace

std::uint64_t Gradient::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, [](std::uint64_t product, std::int64_t side) {
    return product * static_cast<std::uint64_t>(side);
  });
}

Result<std::vector<Gradient>> model_gradients(std::string_view model) {
  if (model == "resnet50") return resnet50();
  if (model == "vgg16") return vgg16();
  if (model == "bert-base") return bert_base();
  if (model == "gpt2") return gpt2();
  if (auto list = equal_tensors(model)) return *std::move(list);
  std::string known;
  for (std::string_view each : known_models) known += (known.empty() ? "" : ", ") + std::string(each);
  return Status(ErrorCode::invalid_argument, "'" + std::string(model) + "' is not one of the models " + known +
                                                 ", nor tensors x elements (1000x256)" +
                                                 did_you_mean(model, known_models));
}

std::uint64_t total_elements(std::span<const Gradient> gradients) {
  std::uint64_t sum = 0;
  for (const Gradient& each : gradients) sum += each.elements();
  return sum;
}

std::vector<std::uint64_t> fused_buckets(std::span<const Gradient> gradients, std::uint64_t element_bytes,
                                         std::uint64_t bytes) {
  std::vector<std::uint64_t> buckets;
  std::uint64_t filled = 0;
  for (const Gradient& each : gradients) {
    filled += each.elements() * element_bytes;
    if (filled < bytes) continue;
    buckets.push_back(filled);
    filled = 0;
  }
  if (filled > 0) buckets.push_back(filled);
  return buckets;
}

}  // namespace fabring::tools
