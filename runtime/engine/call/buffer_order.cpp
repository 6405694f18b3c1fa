#include "runtime/engine/call/buffer_order.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/engine/call/buffer_needs.hpp"

namespace fabring {
namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;

  bool empty() const { return begin == end; }
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

enum class Side : std::uint8_t { input, output };

// What a call reads or writes in the program's memory.
class Touched {
 public:
  Touched(const Call& call, Side side, std::size_t spanned) : call_(call), side_(side), spanned_(spanned) {
    for_each([&](const Range& range) {
      whole_ = whole_.empty() ? range : Range{std::min(whole_.begin, range.begin), std::max(whole_.end, range.end)};
    });
  }

  bool meets(const Touched& other) const {
    if (!whole_.meets(other.whole_)) return false;
    if (is_one() && other.is_one()) return true;
    const std::vector<Range> ours = sorted(), theirs = other.sorted();
    auto a = ours.begin(), b = theirs.begin();
    while (a != ours.end() && b != theirs.end()) {
      if (a->meets(*b)) return true;
      ++(a->end <= b->begin ? a : b);  // nothing that follows in the other list begins before
    }
    return false;
  }

 private:
  const std::vector<std::size_t>& places() const { return side_ == Side::input ? call_.in_offsets : call_.out_offsets; }
  bool is_one() const { return !call_.tensors && places().empty(); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    const std::size_t element = size_of(call_.type);
    const auto piece = [&](const void* base, std::size_t first, std::size_t count) {
      if (count == 0) return;
      const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(base) + first * element;
      visit(Range{begin, begin + count * element});
    };
    if (call_.tensors) {
      for (const Tensor& tensor : *call_.tensors) piece(side_ == Side::input ? tensor.in : tensor.out, 0, tensor.count);
      return;
    }
    const void* const base = side_ == Side::output ? call_.out : call_.uncopied != nullptr ? call_.uncopied : call_.in;
    if (is_one()) return piece(base, 0, spanned_);
    if (spanned_ == 0) return;
    // Blocks that an alltoall writes follow those that it reads.
    const std::size_t first =
        side_ == Side::output && call_.collective == Collective::alltoall ? places().size() / 2 : 0;
    for (std::size_t block = first; block < places().size(); ++block) piece(base, places()[block], call_.counts[block]);
  }

  std::vector<Range> sorted() const {
    std::vector<Range> all;
    for_each([&](const Range& range) { all.push_back(range); });
    std::ranges::sort(all, {}, &Range::begin);
    return all;
  }

  const Call& call_;
  const Side side_;
  const std::size_t spanned_;  // elements; not of tensors
  Range whole_;                // from the first of it to the last
};

}  // namespace

bool must_follow(const Call& next, const Call& earlier, Rank self, int ranks) {
  const BufferNeeds needs = buffer_needs(next, self, ranks), needed = buffer_needs(earlier, self, ranks);
  const Touched writes(next, Side::output, needs.out), written(earlier, Side::output, needed.out);
  return writes.meets(written) || Touched(next, Side::input, needs.in).meets(written) ||
         writes.meets(Touched(earlier, Side::input, needed.in));
}

}  // namespace fabring
