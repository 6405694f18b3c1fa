#pragma once
// KeptShares: something kept for each memory that processes have shared, by whose it is: so much for each of them, what
// was asked for last the longest. So a process that shares a lot pushes out nothing of another's.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "device/device_share.hpp"

namespace fabring {

/// More than a program works with: PyTorch has some hundred buckets and segments. A training step asks for all of them
/// in turn, and one more than are kept would each time be one that was just let go.
inline constexpr std::size_t most_shares_kept = 2048;

template <class Whose, class Value>
class KeptShares {
 public:
  explicit KeptShares(std::size_t most = most_shares_kept) : most_(most) {}

  /// Null: nothing is kept for it.
  Value* find(const Whose& whose, const DeviceShare::Facts& facts) {
    const auto of = all_.find(whose);
    if (of == all_.end()) return nullptr;
    auto& [kept, by_name, let_go] = of->second;
    const auto named = by_name.find(name_of(facts));
    if (named == by_name.end() || !same_memory(named->second->facts, facts)) return nullptr;
    kept.splice(kept.begin(), kept, named->second);
    return &named->second->value;
  }

  /// What lay where this is now is gone. Answers what was kept for it.
  std::vector<Value> replace(const Whose& whose, const DeviceShare::Facts& facts) {
    std::vector<Value> replaced;
    const auto of = all_.find(whose);
    if (of == all_.end()) return replaced;
    auto& [kept, by_name, let_go] = of->second;
    for (auto one = kept.begin(); one != kept.end();) {
      const auto next = std::next(one);
      if (contradict(one->facts, facts) || name_of(one->facts) == name_of(facts)) {
        by_name.erase(name_of(one->facts));
        replaced.push_back(std::move(one->value));
        kept.erase(one);
      }
      one = next;
    }
    return replaced;
  }

  /// What is not kept yet. True: it was, and was let go as there was no room.
  bool add(const Whose& whose, const DeviceShare::Facts& facts, Value value) {
    (void)replace(whose, facts);
    auto& [kept, by_name, let_go] = all_[whose];
    const bool again = let_go.erase(name_of(facts)) > 0;
    kept.push_front({facts, std::move(value)});
    by_name[name_of(facts)] = kept.begin();
    if (kept.size() > most_) {
      if (let_go.size() == most_) let_go.clear();
      let_go.insert(name_of(kept.back().facts));
      by_name.erase(name_of(kept.back().facts));
      kept.pop_back();
    }
    return again;
  }

  void forget(const Whose& whose) { all_.erase(whose); }
  /// All whose of which this says so.
  template <class Which>
  void forget_if(const Which& which) {
    std::erase_if(all_, [&](const auto& one) { return which(one.first); });
  }
  /// Nothing is kept any more.
  std::vector<Value> take_all() {
    std::vector<Value> taken;
    for (auto& [whose, of] : all_)
      for (Kept& one : of.kept) taken.push_back(std::move(one.value));
    all_.clear();
    return taken;
  }
  std::size_t size() const {
    std::size_t all = 0;
    for (const auto& [whose, of] : all_) all += of.kept.size();
    return all;
  }

 private:
  using Name = std::tuple<bool, std::uint64_t, std::uint64_t, std::uint64_t>;
  static Name name_of(const DeviceShare::Facts& facts) {
    const bool in_pieces = facts.pieces > 0;
    return {in_pieces, in_pieces ? facts.piece_numbers[0] : facts.allocation, facts.base, facts.bytes};
  }
  struct Kept {
    DeviceShare::Facts facts;
    Value value;
  };
  struct OfOne {
    std::list<Kept> kept;  // what was asked for last comes first
    std::map<Name, typename std::list<Kept>::iterator> by_name;
    std::set<Name> let_go;  // as there was no room
  };

  const std::size_t most_;
  std::map<Whose, OfOne> all_;
};

}  // namespace fabring
