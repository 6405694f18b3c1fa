#pragma once
// Where ranks outnumber the processors that they may use, which of them share one decides what messages cost: ranks of
// consecutive numbers send each other most, and those on one processor need no other one's caches. The kernel puts them
// anyhow and leaves them there for as long as each yields to the others.

#include <vector>

#include "fabring/types.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

/// The processor on which this rank should wait for the others: consecutive ranks share one, the first ones (roots,
/// mostly) with fewer where they cannot be divided evenly. -1: leave it to the kernel, since every rank may have a
/// processor of its own, or those that share some may not use the same ones.
int home_core(const std::vector<Identity>& ranks, Rank self);

}  // namespace fabring
