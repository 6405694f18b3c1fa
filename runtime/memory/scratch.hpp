#pragma once
// Scratch: the memory an engine lends to executions, under a budget that only what keeps an idle communicator alive may
// pass. Blocks are kept and lent again, last returned first, so that what is lent is still warm in the cache. Used by
// whoever drives the engine.
//
// Memory takes long to get and to free: pages are made and taken away, and where it is pinned both may wait for what a
// device does. So blocks are of few sizes and serve smaller requests, too. All of a block counts as lent.

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "transports/memory_source.hpp"

namespace fabring {

class Scratch {
 public:
  /// From `source` as far as it has memory; null: ordinary memory.
  explicit Scratch(std::size_t budget_bytes, std::shared_ptr<MemorySource> source = nullptr)
      : budget_(budget_bytes), source_(std::move(source)) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// A block of at least `bytes`, aligned to a page, or null when that would pass the budget (unless `beyond_budget`)
  /// or there is no memory.
  std::byte* borrow(std::size_t bytes, bool beyond_budget = false);
  void give_back(std::byte* block, std::size_t bytes);
  /// The same of a block that is not what is wanted: it is not kept.
  void drop(std::byte* block, std::size_t bytes);

  /// Like borrow(), but memory is taken only when the promise is kept. False: it would pass the budget.
  bool promise(std::size_t bytes, bool beyond_budget = false);
  /// The block, to be given back; null if there is no memory, and then the promise is still open.
  std::byte* keep_promise(std::size_t bytes);
  /// It is not needed any more, and never was.
  void release_promise(std::size_t bytes) {
    lent_ -= rounded(bytes);
    asked_ -= rounded(bytes);
  }

  std::size_t budget() const { return budget_; }
  /// Before anything is lent.
  void limit(std::size_t budget_bytes) { budget_ = budget_bytes; }
  std::size_t lent() const { return lent_; }    ///< bytes with executions now, or promised to them
  std::size_t asked() const { return asked_; }  ///< of these what was asked for: blocks may be longer
  std::size_t held() const { return held_; }    ///< lent and kept for reuse
  std::size_t most_held() const { return most_held_; }

 private:
  static std::size_t rounded(std::size_t bytes);
  bool may_be(std::size_t size, std::size_t bytes) const;
  std::byte* find(std::size_t bytes, std::size_t& size);
  std::byte* find_kept(std::size_t bytes, std::size_t most, std::size_t& size);
  std::byte* make(std::size_t bytes);
  std::byte* take(std::size_t bytes);
  void free(std::byte* block, std::size_t bytes);

  std::size_t budget_;
  std::shared_ptr<MemorySource> source_;
  std::size_t lent_ = 0;
  std::size_t asked_ = 0;
  std::size_t held_ = 0;
  std::size_t most_held_ = 0;
  std::map<std::size_t, std::vector<std::byte*>> kept_;  // by size
  std::map<std::byte*, std::size_t> sizes_;              // of every block
};

}  // namespace fabring
