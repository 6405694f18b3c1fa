#pragma once
// SlotTable: the receives posted for one peer, found by slot. Open addressing with linear probing and backward-shift
// deletion: no allocation per message, and a hostile peer can neither grow it nor make it slow (slots are our own).

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "transports/endpoint.hpp"

namespace fabring {

struct PostedReceive {
  Slot slot = 0;
  bool arriving = false;  ///< a message for it is being read: a second one is a protocol error
  std::byte* into = nullptr;
  std::size_t capacity = 0;
  std::uint64_t context = 0;
  bool cold = false;          ///< posted by Endpoint::post_cold_recv
  bool borrows = false;       ///< posted by Endpoint::post_borrowing_recv
  bool takes_ticket = false;  ///< posted by Endpoint::post_recv_or_ticket
};

class SlotTable {
 public:
  std::size_t size() const { return size_; }

  PostedReceive* find(Slot slot) {
    if (size_ == 0) return nullptr;
    for (std::size_t i = home(slot); cells_[i].used; i = next(i)) {
      if (cells_[i].receive.slot == slot) return &cells_[i].receive;
    }
    return nullptr;
  }

  /// False if the slot is taken.
  bool insert(const PostedReceive& receive) {
    if (find(receive.slot) != nullptr) return false;
    if (2 * (size_ + 1) > cells_.size()) grow();
    place(receive);
    return true;
  }

  void erase(Slot slot) {
    if (size_ == 0) return;
    std::size_t hole = home(slot);
    while (cells_[hole].used && cells_[hole].receive.slot != slot) hole = next(hole);
    if (!cells_[hole].used) return;
    for (std::size_t i = next(hole); cells_[i].used; i = next(i)) {
      // A cell may move into the hole unless its home lies behind the hole.
      const std::size_t from_home = (i - home(cells_[i].receive.slot)) & mask();
      const std::size_t from_hole = (i - hole) & mask();
      if (from_home < from_hole) continue;
      cells_[hole] = cells_[i];
      hole = i;
    }
    cells_[hole].used = false;
    --size_;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const Cell& cell : cells_)
      if (cell.used) visit(cell.receive);
  }

  /// Empties the table, giving each receive to `visit`.
  template <class Visit>
  void drain(Visit visit) {
    for (Cell& cell : cells_) {
      if (std::exchange(cell.used, false)) visit(cell.receive);
    }
    size_ = 0;
  }

 private:
  struct Cell {
    bool used = false;
    PostedReceive receive;
  };

  std::size_t mask() const { return cells_.size() - 1; }
  std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  std::size_t home(Slot slot) const { return (slot * 0x9e3779b1u >> 7) & mask(); }

  void place(const PostedReceive& receive) {
    std::size_t i = home(receive.slot);
    while (cells_[i].used) i = next(i);
    cells_[i] = {true, receive};
    ++size_;
  }

  void grow() {
    std::vector<Cell> old(cells_.empty() ? 32 : 2 * cells_.size());
    old.swap(cells_);
    size_ = 0;
    for (const Cell& cell : old) {
      if (cell.used) place(cell.receive);
    }
  }

  std::vector<Cell> cells_;  // a power of two, at most half full
  std::size_t size_ = 0;
};

}  // namespace fabring
