#pragma once
// SoleRail: the endpoint of a rank with one network card, reached like those of ranks with several: it tells of its
// card, and joins it to one of each peer's. Everything else goes straight through.

#include "transports/rails/rails.hpp"

namespace fabring::rails {

std::unique_ptr<Endpoint> make_sole_rail(Rail rail, const RailsOptions& options);

}  // namespace fabring::rails
