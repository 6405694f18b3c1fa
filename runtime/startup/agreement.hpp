#pragma once
// agree(): what all ranks of a job must do alike: how long messages are, where they are received, what prices suppose.
// Pure. It is told what all ranks said of themselves and what they know alike of their path, and not which rank asks,
// so that every rank gets the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine/engine_parts.hpp"
#include "runtime/startup/common_path.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/machine_choice.hpp"

namespace fabring {

/// Names as in EngineParts.
struct Agreed {
  std::size_t segment_bytes = 0;  ///< segment_of()
  std::size_t lent_segment_bytes = 0;
  std::size_t long_segment_bytes = 0;
  std::size_t unasked_limit = 0;
  std::size_t least_scratch_bytes = 0;
  std::uint32_t depth_for_cards = 0;
  bool some_have_gpus = false;
  bool shares_memory = false;
  bool through_loopback = false;
  ParcelRules parcels;
  Reach reach = Reach::network;
};

/// `ranks` fit together: compare().
Agreed agree(const std::vector<Identity>& ranks, const CommonPath& path);

/// For people: what of it is not as usual. `begun`: this rank, which reports it, has a GPU in use.
std::vector<std::string> describe(const Agreed& agreed, bool begun);

}  // namespace fabring
