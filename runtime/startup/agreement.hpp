#pragma once
// agree(): what all ranks of a job must do alike: how long messages are, where they are received, what prices suppose.
// Pure. It is told what all ranks said of themselves and what they know alike of their path, and not which rank asks,
// so that every rank gets the same.

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/engine/agreed.hpp"
#include "runtime/startup/common_path.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/machine_choice.hpp"

namespace fabring {

/// And what start-up itself goes by from there on.
struct Agreement : Agreed {
  std::size_t segment_bytes = 0;  ///< segment_of(); it takes the place of FABRING_SEGMENT_BYTES
  Reach reach = Reach::network;
};

/// `ranks` fit together: compare().
Agreement agree(const std::vector<Identity>& ranks, const CommonPath& path);

/// For people: what of it is not as usual. `begun`: this rank, which reports it, has a GPU in use.
std::vector<std::string> describe(const Agreement& agreed, bool begun);

}  // namespace fabring
