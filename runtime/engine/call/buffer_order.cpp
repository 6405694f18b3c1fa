#include "runtime/engine/call/buffer_order.hpp"

#include <algorithm>
#include <vector>

#include "runtime/engine/call/buffer_needs.hpp"
#include "runtime/engine/call/buffer_ranges.hpp"

namespace fabring {
namespace {

// What a call reads or writes in the program's memory.
class Touched {
 public:
  Touched(const Call& call, BufferSide side, std::size_t spanned) : call_(call), side_(side), spanned_(spanned) {
    for_each([&](const MemoryRange& range) {
      whole_ =
          whole_.empty() ? range : MemoryRange{std::min(whole_.begin, range.begin), std::max(whole_.end, range.end)};
    });
  }

  bool meets(const Touched& other) const {
    if (!whole_.meets(other.whole_)) return false;
    if (is_one() && other.is_one()) return true;
    const std::vector<MemoryRange> ours = sorted(), theirs = other.sorted();
    auto a = ours.begin(), b = theirs.begin();
    while (a != ours.end() && b != theirs.end()) {
      if (a->meets(*b)) return true;
      ++(a->end <= b->begin ? a : b);  // nothing that follows in the other list begins before
    }
    return false;
  }

 private:
  bool is_one() const { return is_one_range(call_, side_); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for_each_range(call_, side_, spanned_, visit);
  }

  std::vector<MemoryRange> sorted() const {
    std::vector<MemoryRange> all;
    for_each([&](const MemoryRange& range) { all.push_back(range); });
    std::ranges::sort(all, {}, &MemoryRange::begin);
    return all;
  }

  const Call& call_;
  const BufferSide side_;
  const std::size_t spanned_;  // elements; not of tensors
  MemoryRange whole_;          // from the first of it to the last
};

}  // namespace

bool must_follow(const Call& next, const Call& earlier, Rank self, int ranks) {
  const BufferNeeds needs = buffer_needs(next, self, ranks), needed = buffer_needs(earlier, self, ranks);
  const Touched writes(next, BufferSide::output, needs.out), written(earlier, BufferSide::output, needed.out);
  return writes.meets(written) || Touched(next, BufferSide::input, needs.in).meets(written) ||
         writes.meets(Touched(earlier, BufferSide::input, needed.in));
}

}  // namespace fabring
