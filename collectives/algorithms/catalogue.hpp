#pragma once
// The catalogue: which collective has which algorithm, what it claims and what it cannot do. Internal to collectives/.

#include <string_view>

#include "collectives/algorithms/forms.hpp"

namespace fabring {

enum class Claim : std::uint8_t { none, order, fold, one_step };  // see keeps_order(), is_reproducible(), rounds_once()

struct CatalogueEntry {
  Collective collective;
  Algorithm algorithm;
  Form* form;
  Claim claim = Claim::none;
  bool powers_of_two_only = false;
  bool equal_blocks_only = false;
};

/// Null if the collective does not have the algorithm.
const CatalogueEntry* find_in_catalogue(Collective collective, Algorithm algorithm);

}  // namespace fabring
