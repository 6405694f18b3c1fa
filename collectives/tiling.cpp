#include "collectives/tiling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collectives/ownership.hpp"

namespace fabring {
namespace {

constexpr std::size_t smallest_of_pair = std::size_t{16} << 10;
constexpr std::size_t segment_of_pair = std::size_t{64} << 10;  // of longer vectors
constexpr int most_ranks_of_long_messages = 16;
constexpr int most_ranks_of_readable = 8;                          // what is copied to all others at once finds room
constexpr std::size_t sent_unasked_to_all = std::size_t{1} << 20;  // and in the caches

bool is_passed_on(Collective collective, std::string_view algorithm, int ranks) {
  switch (collective) {
    case Collective::send:
    case Collective::recv:
      return false;
    case Collective::broadcast:
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
      return ranks > 2 && algorithm != "direct_one_shot" && algorithm != "pairwise";
    default:
      return true;
  }
}

// Two ranks that both send all the time.
bool is_exchange(Collective collective, int ranks) {
  return ranks == 2 && (collective == Collective::allreduce || collective == Collective::reduce_scatter ||
                        collective == Collective::all_gather);
}

// A vector that two ranks exchange, of a length at which a message less to wait for is worth more than a longer one.
bool is_short_exchange(Collective collective, int ranks, std::uint64_t bytes, const TilingRules& rules) {
  constexpr std::uint64_t longest = std::uint64_t{2} << 20;
  return ranks == 2 && collective == Collective::alltoall && bytes > rules.pair_vector_bytes && bytes <= longest;
}

// A vector of which each of two ranks sends the other its half, so long that fewer messages are worth more than what
// shorter ones overlap. Still longer ones are not, in memory that the ranks share.
bool is_long_gather(Collective collective, int ranks, std::uint64_t bytes) {
  constexpr std::uint64_t shortest = std::uint64_t{4} << 20, longest = std::uint64_t{32} << 20;
  return ranks == 2 && collective == Collective::all_gather && bytes >= shortest && bytes <= longest;
}

// What two ranks send each other and only move is copied once more if it lands: how many times shorter it has to be. 0:
// all of it waits for grants, as what goes one way does, whose receiver has nothing to send back.
std::size_t moved_share_of_landing(Collective collective, int ranks) {
  if (ranks != 2) return 0;
  return collective == Collective::all_gather ? 2 : collective == Collective::alltoall ? 4 : 0;
}

// Two ranks that reduce all they send each other.
bool is_reduced_at_once(Collective collective, std::string_view algorithm, int ranks) {
  return ranks == 2 && ((collective == Collective::allreduce &&
                         (algorithm == "recursive_doubling" || algorithm == "direct_one_shot")) ||
                        collective == Collective::reduce_scatter);
}

// Each rank makes one part of the whole vector for all: PreparedPlan::parts of every rank is their number.
bool is_made_by_parts(Collective collective, std::string_view algorithm, int ranks) {
  return collective == Collective::allreduce &&
         (algorithm == "direct_two_shot" || (ranks == 2 && (algorithm == "ring" || algorithm == "halving_doubling")));
}

// What a rank gets from all others, or from those of its node, stays in scratch memory until it has all of it, as it is
// added in their order.
bool keeps_all_messages(Collective collective, std::string_view algorithm) {
  return reduces(collective) && (algorithm == "direct_one_shot" || algorithm == "direct_two_shot" ||
                                 algorithm == "fold" || algorithm == "star");
}

// Of what two ranks exchange through memory that they share.
TilingRules rules_of_pair(const TilingRules& rules, TilingRules own, Collective collective, int ranks,
                          std::uint64_t bytes) {
  const auto cut = [&](std::size_t segment, std::size_t smallest) {
    own.segment_bytes = segment;
    own.smallest_bytes = std::min({rules.smallest_bytes, segment, smallest});
    return own;
  };
  if (bytes <= rules.pair_vector_bytes)
    return cut(rules.pair_bytes, collective == Collective::all_gather ? rules.pair_bytes : smallest_of_pair);
  own.pair_bytes = 0;
  return cut(is_long_gather(collective, ranks, bytes) ? rules.segment_bytes : segment_of_pair, segment_of_pair);
}

// The largest message of what two ranks move, or one of them reduces, in records that nobody grants: shorter where one
// is taken while the next is written, or each reads what the other has just written. 0: of what they reduce for both,
// and of so much to all that tiles side by side are quicker than one after the other.
std::size_t moved_segment_of_pair(const TilingRules& rules, Collective collective, std::uint64_t bytes) {
  constexpr std::uint64_t longest_to_all = std::uint64_t{8} << 20;
  switch (collective) {
    case Collective::all_gather:
    case Collective::scatter:
      return rules.pair_moved_bytes;
    case Collective::broadcast:
    case Collective::gather:
      return rules.pair_moved_bytes / 2;
    case Collective::alltoall:
      return bytes != 0 && bytes <= longest_to_all ? rules.pair_moved_bytes / 2 : 0;  // 0: nobody knows how many
    case Collective::reduce:
      return std::min(rules.pair_moved_bytes, segment_of_pair);
    default:
      return 0;
  }
}

TilingRules rules_by_size(const TilingRules& rules, Collective collective, std::string_view algorithm, int ranks,
                          std::uint64_t bytes) {
  TilingRules own = rules;
  const bool too_long = rules.landing_vector_bytes != 0 && bytes > rules.landing_vector_bytes;
  if (rules.landing_bytes != 0 && !too_long && is_reduced_at_once(collective, algorithm, ranks)) {
    own.eager_bytes = own.eager_in_tiles_bytes = std::max(rules.landing_bytes, rules.eager_bytes);
    own.segment_bytes = own.smallest_bytes = rules.landing_bytes;
    own.depth = rules.landing_depth;
    return own;
  }
  if (rules.reducing_depth != 0 && reduces(collective)) own.depth = rules.reducing_depth;
  own.by_parts = rules.by_parts && is_made_by_parts(collective, algorithm, ranks);
  own.landing_bytes = 0;
  if (const std::size_t share = moved_share_of_landing(collective, ranks); rules.landing_bytes != 0 && share != 0) {
    own.landing_bytes = rules.landing_bytes / share;
    own.eager_bytes = std::max(own.landing_bytes, rules.eager_bytes);
    own.eager_in_tiles_bytes = longest_eager(rules, 2);
  }
  const std::size_t of_pair = ranks == 2 ? moved_segment_of_pair(rules, collective, bytes) : 0;
  if (of_pair != 0) {
    own.segment_bytes = own.smallest_bytes = of_pair;
    own.eager_bytes = std::max(rules.eager_bytes, of_pair);
  } else if (rules.pair_bytes != 0 &&
             (is_exchange(collective, ranks) || is_short_exchange(collective, ranks, bytes, rules))) {
    own = rules_of_pair(rules, own, collective, ranks, bytes);
  } else if (rules.moved_segment_bytes != 0 && !is_passed_on(collective, algorithm, ranks)) {
    const std::size_t moved = ranks > 2                             ? rules.moved_segment_bytes / 2
                              : collective == Collective::broadcast ? rules.moved_segment_bytes * 4
                                                                    : rules.moved_segment_bytes;
    own.segment_bytes = std::max(rules.segment_bytes, moved);
    own.smallest_bytes = own.segment_bytes;  // there is nothing to overlap
  } else if (rules.pair_bytes != 0 && is_readable(collective, algorithm, ranks) && ranks > 2) {
    own.smallest_bytes = rules.segment_bytes;  // messages to others overlap
    if (ranks <= most_ranks_of_readable) {
      const std::size_t to_each = std::min(rules.readable_bytes, sent_unasked_to_all / static_cast<std::size_t>(ranks));
      own.eager_bytes = std::max(rules.eager_bytes, to_each);
      own.eager_in_tiles_bytes = longest_eager(rules, 2);
    }
  } else if (is_exchange(collective, ranks)) {
    own.smallest_bytes = std::max(rules.smallest_bytes, rules.exchanged_whole_bytes);
  } else if (rules.reduced_together_bytes != 0 && collective == Collective::allreduce &&
             algorithm == "direct_two_shot") {
    const std::size_t each = std::bit_floor(rules.reduced_together_bytes / static_cast<std::size_t>(ranks));
    own.segment_bytes = std::clamp(each, rules.smallest_bytes, rules.segment_bytes);
  }
  return own;
}

}  // namespace

bool is_readable(Collective collective, std::string_view algorithm, int ranks) {
  const bool sends_as_much = collective == Collective::all_gather || collective == Collective::alltoall ||
                             collective == Collective::scatter || (collective == Collective::broadcast && ranks == 2);
  return sends_as_much && !is_passed_on(collective, algorithm, ranks);
}

TilingRules rules_through_loopback(TilingRules rules, int ranks) {
  if (ranks > most_ranks_of_long_messages) return rules;
  rules.segment_bytes = std::size_t{512} << 10;
  rules.depth = 2;
  rules.exchanged_whole_bytes = rules.segment_bytes;
  return rules;
}

TilingRules rules_between_gpus(TilingRules rules) {
  rules.eager_bytes = std::min(rules.eager_bytes, unasked_between_gpus);
  rules.smallest_bytes = std::size_t{512} << 10;
  return rules;
}

TilingRules for_kept_messages(TilingRules rules, Collective collective, std::string_view algorithm, int ranks) {
  if (!keeps_all_messages(collective, algorithm)) return rules;
  constexpr std::size_t smallest = 64;  // as FABRING_SEGMENT_BYTES
  // A fold keeps besides what came from the node before. In a reduce_scatter over unequal runs of ranks one keeps up to
  // 2 n - 2 messages, two thirds of scratch.
  const auto kept =
      static_cast<std::size_t>(ranks) + (algorithm == "fold" ? static_cast<std::size_t>(ranks + 1) / 2 : 0);
  const std::size_t fits = std::max(rules.scratch_bytes / (2 * kept), smallest);
  rules.segment_bytes = std::min(rules.segment_bytes, fits);
  rules.smallest_bytes = std::min(rules.smallest_bytes, rules.segment_bytes);
  return rules;
}

TilingRules rules_for(const TilingRules& rules, Collective collective, std::string_view algorithm, int ranks,
                      std::uint64_t bytes) {
  return for_kept_messages(rules_by_size(rules, collective, algorithm, ranks, bytes), collective, algorithm, ranks);
}

std::size_t tile_count(double message_bytes, std::size_t count, const TilingRules& rules) {
  // Enough tiles that no message is longer than a segment, and `depth` of them if the messages stay worth their while.
  const double bytes = static_cast<double>(count) * message_bytes;
  constexpr double rounding = 1e-9;  // of message_bytes
  const auto needed =
      static_cast<std::size_t>(std::ceil(bytes / static_cast<double>(rules.segment_bytes) * (1 - rounding)));
  const auto overlap =
      std::min<std::size_t>(rules.depth, static_cast<std::size_t>(bytes / static_cast<double>(rules.smallest_bytes)));
  return std::clamp<std::size_t>(std::max(needed, overlap), 1,
                                 std::max<std::size_t>(std::min<std::size_t>(count, 1u << 30), 1));
}

}  // namespace fabring
