#pragma once
// Ledger: what an endpoint owes its caller: completions not yet handed out, and the counters. One per endpoint.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "transports/endpoint.hpp"

namespace fabring {

class Ledger {
 public:
  void complete(std::uint64_t context, Outcome outcome, std::size_t bytes = 0) {
    open_.push_back({context, outcome, static_cast<std::uint32_t>(bytes)});
  }
  void complete(const Completion& completion) { open_.push_back(completion); }

  std::size_t size() const { return open_.size() - first_; }

  std::size_t hand_out(std::span<Completion> out) {
    const std::size_t count = std::min(out.size(), size());
    std::copy_n(open_.begin() + static_cast<std::ptrdiff_t>(first_), count, out.begin());
    first_ += count;
    if (first_ == open_.size()) {
      open_.clear();
      first_ = 0;
    }
    return count;
  }

  EndpointCounters counters;

 private:
  std::vector<Completion> open_;
  std::size_t first_ = 0;
};

}  // namespace fabring
