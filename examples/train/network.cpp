#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace train {
namespace {

// Gradients in one bucket, about: large enough for an allreduce to be efficient, small enough that the first are on
// their way long before the last are computed.
constexpr int bucket_elements = 64 * 1024;

// Turns outputs into the gradient of their loss, column by column, and returns the sum of the losses.
double softmax_cross_entropy(Eigen::MatrixXf& outputs, std::span<const std::uint8_t> labels) {
  double loss = 0;
  for (Eigen::Index i = 0; i < outputs.cols(); ++i) {
    auto column = outputs.col(i);
    const auto label = static_cast<Eigen::Index>(labels[static_cast<std::size_t>(i)]);
    column.array() -= column.maxCoeff();
    const float right = column(label);
    column = column.array().exp();
    const float total = column.sum();
    loss += std::log(total) - right;
    column /= total;
    column(label) -= 1;
  }
  return loss;
}

}  // namespace

Network::Network(std::vector<int> widths, std::uint64_t seed) {
  std::size_t size = 0;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    layers_.push_back({widths[l], widths[l + 1], size});
    size += static_cast<std::size_t>(widths[l] + 1) * static_cast<std::size_t>(widths[l + 1]);
  }
  parameters_.resize(size);
  gradients_.resize(size);
  velocity_.resize(size);
  // Glorot and Bengio 2010, uniform. Spelled out because the standard's distributions differ between libraries.
  std::mt19937_64 random(seed);
  for (const Layer& layer : layers_) {
    const double range = std::sqrt(6.0 / (layer.inputs + layer.outputs));
    for (float& weight : layer.weights(parameters_).reshaped()) {
      weight = static_cast<float>(range * (0x1p-52 * static_cast<double>(random() >> 11) - 1));
    }
  }
}

const Eigen::MatrixXf& Network::forward(Eigen::MatrixXf inputs) {
  activations_.clear();
  activations_.push_back(std::move(inputs));
  for (const Layer& layer : layers_) {
    Eigen::MatrixXf sums = layer.weights(parameters_) * activations_.back();
    sums.colwise() += layer.biases(parameters_);
    if (&layer != &layers_.back()) sums = sums.array().tanh();
    activations_.push_back(std::move(sums));
  }
  return activations_.back();
}

double Network::backward(std::span<const std::uint8_t> labels, const std::function<void(Bucket)>& complete) {
  Eigen::MatrixXf delta = std::move(activations_.back());
  const double loss = softmax_cross_entropy(delta, labels);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const Eigen::MatrixXf& inputs = activations_[l];
    layer.biases(gradients_) = delta.rowwise().sum();
    const int step = std::max(1, bucket_elements / layer.outputs);
    for (int column = 0; column < layer.inputs; column += step) {
      const int columns = std::min(step, layer.inputs - column);
      layer.weights(gradients_).middleCols(column, columns).noalias() =
          delta * inputs.middleRows(column, columns).transpose();
      const bool last = column + columns == layer.inputs;  // the biases travel with it
      complete({layer.first + static_cast<std::size_t>(column) * static_cast<std::size_t>(layer.outputs),
                static_cast<std::size_t>(columns + (last ? 1 : 0)) * static_cast<std::size_t>(layer.outputs)});
    }
    if (l > 0) {
      Eigen::MatrixXf below = layer.weights(parameters_).transpose() * delta;
      delta = below.array() * (1.0f - inputs.array().square());  // tanh' = 1 - tanh^2
    }
  }
  return loss;
}

void Network::update(Bucket bucket, int images, float learning_rate, float momentum) {
  const auto part = [bucket](std::vector<float>& all) {
    return Eigen::Map<Eigen::ArrayXf>(&all[bucket.first], static_cast<Eigen::Index>(bucket.count));
  };
  auto velocity = part(velocity_);
  velocity = momentum * velocity + part(gradients_) / static_cast<float>(images);
  part(parameters_) -= learning_rate * velocity;
}

}  // namespace train
