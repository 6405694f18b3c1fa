#pragma once
// FlatEngine: an engine as its FlatRuns see it: what they send with and borrow, how they wait, and whether there is
// something else to do. References, so nothing of it is copied or called through a table; made by an engine of several
// ranks, and gone with it.

#include <atomic>

#include "runtime/base/clock.hpp"
#include "runtime/engine/flat/flat_scratch.hpp"
#include "runtime/engine/messages/orphans.hpp"
#include "runtime/engine/waiting/waiting.hpp"
#include "runtime/memory/mapped_blocks.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

struct FlatEngine {
  Transfer& transfer;
  FlatScratch& scratch;
  const MappedBlocks& mapped;
  const WaitPolicy& waiting;
  const Clock& clock;
  const std::atomic<bool>& news;   ///< something was submitted or reported
  const Orphans& orphans;          ///< or made
  const std::atomic<bool>& asked;  ///< somebody wants to know what the rank is doing

  bool has_news() const { return news.load(std::memory_order_relaxed) || orphans.is_wanted(); }
  bool is_wanted() const { return has_news() || asked.load(std::memory_order_relaxed); }
};

}  // namespace fabring
