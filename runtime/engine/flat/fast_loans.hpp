#pragma once
// FastLoans: the caller's memory that peers may be reading where it is (Transfer::lend_fast). Each peer gives back in
// order what it was lent, so the last loan to each stands for those before it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

struct FastLoan {
  static constexpr std::size_t least_bytes = 4096;  ///< what is shorter is in the caches anyway
  Rank peer = -1;                                   ///< of the world
  std::uint32_t number = 0;
};

class FastLoans {
 public:
  void clear() { loans_.clear(); }
  void add(FastLoan loan) {
    const auto known = std::ranges::find(loans_, loan.peer, &FastLoan::peer);
    if (known == loans_.end())
      loans_.push_back(loan);
    else
      known->number = loan.number;
  }
  bool empty() const { return loans_.empty(); }
  /// Does no peer read any of it any more?
  bool all_back(const Transfer& transfer) const {
    return std::ranges::all_of(loans_, [&](const FastLoan& loan) { return transfer.is_back(loan.peer, loan.number); });
  }
  /// Who may still be reading: ranks of the world.
  std::vector<Rank> readers(const Transfer& transfer) const {
    std::vector<Rank> ranks;
    for (const FastLoan& loan : loans_)
      if (!transfer.is_back(loan.peer, loan.number)) ranks.push_back(loan.peer);
    return ranks;
  }

 private:
  std::vector<FastLoan> loans_;
};

}  // namespace fabring
