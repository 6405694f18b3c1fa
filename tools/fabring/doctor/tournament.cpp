#include "tools/fabring/doctor/tournament.hpp"

#include <algorithm>

namespace fabring::tools {

// The circle method: one player stays, the others move on by a place each round; an odd one meets nobody.
std::vector<Pairing> tournament(int players, int at_once) {
  std::vector<Pairing> rounds;
  const int seats = players + players % 2;
  for (int round = 0; round + 1 < seats; ++round) {
    Pairing all;
    for (int i = 0; i < seats / 2; ++i) {
      const auto place = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
      const auto [low, high] = std::minmax({place(i), place(seats - 1 - i)});
      if (high < players) all.emplace_back(low, high);
    }
    const auto size = static_cast<std::size_t>(std::max(at_once, 1));
    for (std::size_t from = 0; from < all.size(); from += size)
      rounds.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(from),
                          all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), from + size)));
  }
  return rounds;
}

}  // namespace fabring::tools
