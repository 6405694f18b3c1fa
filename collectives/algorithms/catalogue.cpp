#include "collectives/algorithms/catalogue.hpp"

#include <bit>

namespace fabring {
namespace {

using enum Algorithm;

constexpr CatalogueEntry catalogue[] = {
    {Collective::allreduce, ring, allreduce_by_ring},
    {Collective::allreduce, hierarchical, allreduce_by_hierarchical},
    {Collective::allreduce, recursive_doubling, allreduce_by_recursive_doubling, Claim::order},
    {Collective::allreduce, direct_one_shot, allreduce_by_direct_one_shot, Claim::one_step},
    {Collective::allreduce, direct_two_shot, allreduce_by_direct_two_shot, Claim::one_step},
    {Collective::allreduce, circulant, allreduce_by_circulant},
    {Collective::allreduce, halving_doubling, allreduce_by_halving_doubling, Claim::order},
    {Collective::allreduce, binomial, allreduce_by_binomial, Claim::order},
    {Collective::allreduce, double_tree, allreduce_by_double_tree},
    {Collective::allreduce, fold, allreduce_by_fold, Claim::fold},
    {Collective::allreduce, star, allreduce_by_star, Claim::one_step},

    {Collective::reduce, ring, reduce_by_ring},
    {Collective::reduce, hierarchical, reduce_by_hierarchical},
    {Collective::reduce, direct_one_shot, reduce_by_direct, Claim::one_step},
    {Collective::reduce, direct_two_shot, reduce_by_direct_two_shot, Claim::one_step},
    {Collective::reduce, binomial, reduce_by_binomial, Claim::order},
    {Collective::reduce, chain, reduce_by_chain, Claim::order},
    {Collective::reduce, fold, reduce_by_fold, Claim::fold},

    {Collective::reduce_scatter, ring, reduce_scatter_by_ring},
    {Collective::reduce_scatter, hierarchical, reduce_scatter_by_hierarchical},
    {Collective::reduce_scatter, direct_one_shot, reduce_scatter_by_direct, Claim::one_step},
    {Collective::reduce_scatter, circulant, reduce_scatter_by_circulant},
    {Collective::reduce_scatter, halving_doubling, reduce_scatter_by_halving_doubling, Claim::none, true},
    {Collective::reduce_scatter, fold, reduce_scatter_by_fold, Claim::fold},

    {Collective::all_gather, ring, all_gather_by_ring},
    {Collective::all_gather, hierarchical, all_gather_by_hierarchical},
    {Collective::all_gather, recursive_doubling, all_gather_by_recursive_doubling, Claim::none, true},
    {Collective::all_gather, direct_one_shot, all_gather_by_direct},
    {Collective::all_gather, circulant, all_gather_by_circulant},
    {Collective::all_gather, bruck, all_gather_by_bruck},

    {Collective::broadcast, ring, broadcast_by_ring},
    {Collective::broadcast, hierarchical, broadcast_by_hierarchical},
    {Collective::broadcast, direct_one_shot, broadcast_by_direct},
    {Collective::broadcast, direct_two_shot, broadcast_by_direct_two_shot},
    {Collective::broadcast, binomial, broadcast_by_binomial},
    {Collective::broadcast, double_tree, broadcast_by_double_tree},
    {Collective::broadcast, chain, broadcast_by_chain},

    {Collective::gather, direct_one_shot, gather_by_direct},
    {Collective::gather, binomial, gather_by_binomial},
    {Collective::gather, hierarchical, gather_by_hierarchical},

    {Collective::scatter, direct_one_shot, scatter_by_direct},
    {Collective::scatter, binomial, scatter_by_binomial},
    {Collective::scatter, hierarchical, scatter_by_hierarchical},

    {Collective::alltoall, direct_one_shot, alltoall_by_direct},
    {Collective::alltoall, bruck, alltoall_by_bruck, Claim::none, false, true},
    {Collective::alltoall, hierarchical, alltoall_by_hierarchical, Claim::none, false, true},
    {Collective::alltoall, pairwise, alltoall_by_pairwise},

    {Collective::barrier, direct_one_shot, barrier_by_direct},
    {Collective::barrier, binomial, barrier_by_binomial},
    {Collective::barrier, dissemination, barrier_by_dissemination},
};

}  // namespace

const CatalogueEntry* find_in_catalogue(Collective collective, Algorithm algorithm) {
  for (const CatalogueEntry& entry : catalogue) {
    if (entry.collective == collective && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

bool has_algorithm(Collective collective, Algorithm algorithm) {
  return find_in_catalogue(collective, algorithm) != nullptr;
}

bool keeps_order(Collective collective, Algorithm algorithm) {
  const CatalogueEntry* entry = find_in_catalogue(collective, algorithm);
  return entry != nullptr && entry->claim != Claim::none;
}

bool is_reproducible(Collective collective, Algorithm algorithm) {
  const CatalogueEntry* entry = find_in_catalogue(collective, algorithm);
  return entry != nullptr && (entry->claim == Claim::fold || entry->claim == Claim::one_step);
}

bool rounds_once(Collective collective, Algorithm algorithm) {
  const CatalogueEntry* entry = find_in_catalogue(collective, algorithm);
  return entry != nullptr && entry->claim == Claim::one_step;
}

bool takes_ranks(Collective collective, Algorithm algorithm, int ranks) {
  const CatalogueEntry* entry = find_in_catalogue(collective, algorithm);
  return entry != nullptr && (!entry->powers_of_two_only || std::has_single_bit(static_cast<unsigned>(ranks)));
}

bool needs_equal_blocks(Collective collective, Algorithm algorithm) {
  const CatalogueEntry* entry = find_in_catalogue(collective, algorithm);
  return entry != nullptr && entry->equal_blocks_only;
}

}  // namespace fabring
