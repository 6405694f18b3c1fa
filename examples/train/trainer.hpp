#pragma once
// Data-parallel training: every rank holds the whole network and works on its share of each batch; gradients are summed
// over the ranks by Fabring, bucket by bucket, while the backward pass goes on.

#include <vector>

#include "dataset.hpp"
#include "fabring/communicator.hpp"
#include "network.hpp"

namespace train {

struct Options {
  std::string directory = default_directory;
  int epochs = 3;
  int batch = 512;              ///< images of all ranks together, so the number of ranks changes nothing but rounding
  float learning_rate = 0.05f;  ///< of the first epoch; falls by equal steps towards 0
  float momentum = 0.9f;
  int seed = 1;
  int images = 0;  ///< use only the first so many; 0: all
  bool single = false;
  bool verify = false;
};

struct EpochReport {
  int images = 0;            ///< of all ranks
  double loss = 0;           ///< mean over all images
  double accuracy = 0;       ///< of the test images, 0 ... 1
  double seconds = 0;        ///< training, without the test
  double communicating = 0;  ///< seconds from the first bucket's begin to the last one's end, summed over the batches
  double exposed = 0;        ///< seconds of it in which this rank did nothing but wait
};

/// The part of `items` that is this rank's: first (inclusive) and last (exclusive). Shares differ by one item at most.
struct Share {
  int first, last;
};
Share share_of(int items, int rank, int ranks);

class Trainer {
 public:
  /// An empty communicator: alone, without Fabring.
  Trainer(const Dataset& training, const Dataset& test, const Options& options, fabring::Communicator world);

  fabring::Result<EpochReport> run_epoch();
  std::span<float> parameters() { return network_.parameters(); }

 private:
  fabring::Status run_batch(std::span<const int> batch, EpochReport& report);
  fabring::Result<double> measure_accuracy();
  Eigen::MatrixXf gather(const Dataset& from, std::span<const int> which, std::vector<std::uint8_t>& labels) const;

  const Dataset& training_;
  const Dataset& test_;
  const Options options_;
  fabring::Communicator world_;
  const int rank_, ranks_;
  Network network_;
  int epoch_ = 0;  // begun so far
  float learning_rate_ = 0;
};

}  // namespace train
