#pragma once
// A multi-layer perceptron: tanh between layers, softmax and cross-entropy at the end, SGD with momentum. One column
// per image. All parameters lie in one array and their gradients in another, layer after layer (weights by column, then
// biases), so that a range of gradients is one allreduce.

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace train {

/// A part of the gradients that is complete at one moment of the backward pass.
struct Bucket {
  std::size_t first;
  std::size_t count;
};

class Network {
 public:
  /// `widths`: inputs, hidden layers, outputs. The same weights from the same seed on every machine.
  Network(std::vector<int> widths, std::uint64_t seed);

  /// The outputs (before softmax) of every column of `inputs`.
  const Eigen::MatrixXf& forward(Eigen::MatrixXf inputs);
  /// After forward(): leaves in gradients() the *sum* over the columns of the gradient of their loss, and returns the
  /// sum of the losses. Works from the last layer to the first and says of each bucket when it is complete.
  double backward(std::span<const std::uint8_t> labels, const std::function<void(Bucket)>& complete);
  /// One step of SGD with momentum on this bucket; `images`: how many the gradients are the sum of.
  void update(Bucket bucket, int images, float learning_rate, float momentum);

  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }

 private:
  struct Layer {
    int inputs, outputs;
    std::size_t first;  // of its weights; the biases follow
    Eigen::Map<Eigen::MatrixXf> weights(std::vector<float>& all) const { return {&all[first], outputs, inputs}; }
    Eigen::Map<Eigen::VectorXf> biases(std::vector<float>& all) const {
      return {&all[first + static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs)], outputs};
    }
  };

  std::vector<Layer> layers_;
  std::vector<float> parameters_, gradients_, velocity_;
  std::vector<Eigen::MatrixXf> activations_;  // [l]: what layer l was given; the last: the outputs
};

}  // namespace train
