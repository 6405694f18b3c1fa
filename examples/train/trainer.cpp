#include "trainer.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

namespace train {
namespace {

using fabring::DataType;
using fabring::ReduceOp;
using fabring::Result;
using fabring::Status;
// Of the training images, black 0 and white 1.
constexpr float pixel_mean = 0.286f, pixel_deviation = 0.353f;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The same order on every rank: from the seed and the epoch only (std::shuffle differs between libraries).
std::vector<int> shuffled(int size, std::uint64_t seed) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace

Share share_of(int items, int rank, int ranks) {
  const auto bound = [&](int r) { return static_cast<int>(std::int64_t{items} * r / ranks); };
  return {bound(rank), bound(rank + 1)};
}

Trainer::Trainer(const Dataset& training, const Dataset& test, const Options& options, fabring::Communicator world)
    : training_(training),
      test_(test),
      options_(options),
      world_(std::move(world)),
      rank_(world_ ? world_.rank() : 0),
      ranks_(world_ ? world_.size() : 1),
      network_({pixels, 256, 128, classes}, static_cast<std::uint64_t>(options.seed)) {}

Eigen::MatrixXf Trainer::gather(const Dataset& from, std::span<const int> which,
                                std::vector<std::uint8_t>& labels) const {
  Eigen::MatrixXf images(pixels, which.size());
  labels.clear();
  for (std::size_t i = 0; i < which.size(); ++i) {
    const auto index = static_cast<std::size_t>(which[i]);
    labels.push_back(from.labels[index]);
    const Eigen::Map<const Eigen::Array<std::uint8_t, pixels, 1>> image(&from.images[index * pixels]);
    images.col(static_cast<Eigen::Index>(i)) = (image.cast<float>() / 255.0f - pixel_mean) / pixel_deviation;
  }
  return images;
}

Status Trainer::run_batch(std::span<const int> batch, EpochReport& report) {
  struct Pending {
    Bucket bucket;
    fabring::Work work;
  };
  const int images = static_cast<int>(batch.size());
  const Share mine = share_of(images, rank_, ranks_);
  std::vector<std::uint8_t> labels;
  network_.forward(gather(training_, batch.subspan(mine.first, mine.last - mine.first), labels));

  std::vector<Pending> pending;
  Clock::time_point begun;
  report.loss += network_.backward(labels, [&](Bucket bucket) {
    if (pending.empty()) begun = Clock::now();
    float* gradients = &network_.gradients()[bucket.first];
    pending.push_back({bucket, {}});
    if (world_) {  // the sum over all ranks, in place, while the next bucket is computed
      pending.back().work =
          world_.allreduce_async(gradients, gradients, bucket.count, DataType::float32, ReduceOp::sum);
    }
  });

  Status first_error;
  Clock::time_point ended = begun;
  for (Pending& part : pending) {
    if (world_) {
      const Clock::time_point waiting = Clock::now();
      // After an error too: the gradients are Fabring's until every Work is done.
      if (Status status = part.work.wait(); !status.ok() && first_error.ok()) first_error = status;
      ended = Clock::now();
      report.exposed += std::chrono::duration<double>(ended - waiting).count();
    }
    if (first_error.ok()) network_.update(part.bucket, images, learning_rate_, options_.momentum);
  }
  report.communicating += std::chrono::duration<double>(ended - begun).count();
  return first_error;
}

Result<EpochReport> Trainer::run_epoch() {
  EpochReport report;
  learning_rate_ =
      options_.learning_rate * static_cast<float>(options_.epochs - epoch_) / static_cast<float>(options_.epochs);
  const std::vector<int> order = shuffled(training_.size(), static_cast<std::uint64_t>(options_.seed) << 32 | ++epoch_);
  const Clock::time_point start = Clock::now();
  for (int at = 0; at < training_.size(); at += options_.batch) {
    const int images = std::min(options_.batch, training_.size() - at);
    FABRING_TRY(run_batch(std::span(order).subspan(at, images), report));
  }
  report.seconds = seconds_since(start);
  if (world_) FABRING_TRY(world_.allreduce(&report.loss, &report.loss, 1, DataType::float64, ReduceOp::sum));
  report.images = training_.size();
  report.loss /= report.images;
  Result<double> accuracy = measure_accuracy();
  if (!accuracy) return accuracy.error();
  report.accuracy = *accuracy;
  return report;
}

Result<double> Trainer::measure_accuracy() {
  const Share mine = share_of(test_.size(), rank_, ranks_);
  std::int64_t right = 0;
  for (int at = mine.first; at < mine.last; at += options_.batch) {
    std::vector<int> which(static_cast<std::size_t>(std::min(options_.batch, mine.last - at)));
    std::iota(which.begin(), which.end(), at);
    std::vector<std::uint8_t> labels;
    const Eigen::MatrixXf& outputs = network_.forward(gather(test_, which, labels));
    for (Eigen::Index i = 0; i < outputs.cols(); ++i) {
      Eigen::Index best = 0;
      outputs.col(i).maxCoeff(&best);
      right += best == labels[static_cast<std::size_t>(i)] ? 1 : 0;
    }
  }
  if (world_) FABRING_TRY(world_.allreduce(&right, &right, 1, DataType::int64, ReduceOp::sum));
  return static_cast<double>(right) / test_.size();
}

}  // namespace train
