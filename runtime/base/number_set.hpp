#pragma once
// NumberSet: numbers that only become more. Those that lie together take the room of one, as with a counter that most
// of them come from.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace fabring {

class NumberSet {
 public:
  void insert(std::uint32_t number) {
    const auto after = last_of_.upper_bound(number);
    const bool joins_after = after != last_of_.end() && after->first - 1 == number;
    const auto before = after == last_of_.begin() ? last_of_.end() : std::prev(after);
    if (before != last_of_.end() && before->second >= number) return;
    const std::uint32_t last = joins_after ? after->second : number;
    if (joins_after) last_of_.erase(after);
    if (before != last_of_.end() && before->second + 1 == number)
      before->second = last;
    else
      last_of_.emplace(number, last);
  }
  bool contains(std::uint32_t number) const {
    const auto after = last_of_.upper_bound(number);
    return after != last_of_.begin() && std::prev(after)->second >= number;
  }
  std::size_t runs() const { return last_of_.size(); }

 private:
  std::map<std::uint32_t, std::uint32_t> last_of_;  // the last number of each run, by its first
};

}  // namespace fabring
