#pragma once
// Agreed: what the ranks of a job must do alike, as start-up has settled it (runtime/startup/agreement.hpp). Alike on
// all ranks.

#include <cstddef>
#include <cstdint>

#include "runtime/transfer/wire.hpp"

namespace fabring {

struct Agreed {
  /// The longest message where all ranks lend each other memory of GPUs; 0: as elsewhere.
  std::size_t lent_segment_bytes = 0;
  /// The longest message between hosts whose processors do not copy (message_length.hpp); 0: as elsewhere.
  std::size_t long_segment_bytes = 0;
  /// The longest message that is sent unasked, if the endpoint could send longer ones so; 0: what it can.
  std::size_t unasked_limit = 0;
  std::size_t least_scratch_bytes = 0;  ///< of all ranks; 0: as TilingRules says
  std::uint32_t depth_for_cards = 0;    ///< tiles in flight for several network cards; 0: the usual
  bool some_have_gpus = false;          ///< some rank, not this one only: copies to and from a GPU should not be short
  bool shares_memory = true;            ///< some ranks of the job do
  bool through_loopback = false;        ///< all ranks are on one host and share no memory
  ParcelRules parcels;
};

}  // namespace fabring
