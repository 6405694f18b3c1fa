#pragma once
// open_cards(): an endpoint on each of the cards that a rank is to use. One that does not open is left out and named.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/rails/rails.hpp"

namespace fabring {

using OpenCard = std::function<Result<std::unique_ptr<Endpoint>>(const rails::Card& card)>;

/// `first_is_needed`: the others go with the first (the interface on the way to the master); else any of them does, as
/// RDMA devices of one fabric do. `left_out` hears of each that did not open. Errors: that of the first, if it is
/// needed or none opened.
Result<std::vector<rails::Rail>> open_cards(const std::vector<rails::Card>& cards, bool first_is_needed,
                                            const OpenCard& open,
                                            const std::function<void(const std::string& text)>& left_out);

}  // namespace fabring
