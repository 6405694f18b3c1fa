#include "tools/fabring/bandwidth.hpp"

namespace fabring::tools {

double algorithm_bandwidth(std::size_t bytes, double time_us) {
  return time_us > 0 ? static_cast<double>(bytes) / time_us * 1e-3 : 0.0;
}

double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::allreduce:
      return 2 * share;
    case Collective::broadcast:
    case Collective::reduce:
      return 1;
    default:
      return share;
  }
}

}  // namespace fabring::tools
