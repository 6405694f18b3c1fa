#include "simulation/parts.hpp"

#include <algorithm>
#include <cstddef>

#include "simulation/prefetch.hpp"

namespace fabring::simulation {
namespace {

constexpr std::uint32_t most_parts = 4096;  // a part takes over a kilobyte, however little is in it

}  // namespace

Parts::Parts(const std::vector<int>& node_of, const Machine& machine) : span_(machine.between.latency_ns) {
  const auto nodes = static_cast<std::uint32_t>(*std::max_element(node_of.begin(), node_of.end()) + 1);
  const std::uint32_t inseparable = machine.nodes_per_leaf == 0 ? 1 : machine.nodes_per_leaf;
  std::uint32_t nodes_of_part = inseparable;
  while (nodes / nodes_of_part > most_parts) nodes_of_part += inseparable;
  if (span_ == 0) nodes_of_part = nodes;
  for (const int node : node_of) part_of_.push_back(static_cast<std::uint32_t>(node) / nodes_of_part);
  parts_.resize((nodes + nodes_of_part - 1) / nodes_of_part);
  arrived_.resize(parts_.size());
  std::vector<Rank> ranks_of(parts_.size());
  for (Rank rank = 0; rank < static_cast<Rank>(part_of_.size()); ++rank) {
    const std::uint32_t part = part_of_[static_cast<std::size_t>(rank)];
    if (ranks_of[part]++ == 0) parts_[part].ranks.first = rank;
    parts_[part].ranks.last = rank;
  }
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    Ranks& ranks = parts_[part].ranks;
    if (ranks.last - ranks.first + 1 != ranks_of[part]) ranks = {};
  }
  if (parts_.size() == 1) span_ = std::max<Nanoseconds>(span_, 1000);  // any: nobody else is there
}

void Parts::push(const Event& event) {
  const std::uint32_t part = part_of_[static_cast<std::size_t>(event.rank)];
  if (part == present_) {
    if (event.time < end_)
      due_.push(event);
    else
      parts_[part].waiting.put(event);
    return;
  }
  arrived_[part].push_back(event);
  if (event.time < parts_[part].wakes) appoint(part, event.time);
}

bool Parts::turn() {
  if (present_ != none) leave();
  if (next_turn_ == turns_.size() && !next_span()) return false;
  present_ = turns_[next_turn_++];
  const auto add = [&](const Event& event) { due_.add(event); };
  parts_[present_].waiting.take_until(end_, add);
  for (const Event& event : arrived_[present_]) {
    if (event.time < end_)
      add(event);
    else
      parts_[present_].waiting.put(event);
  }
  arrived_[present_].clear();
  due_.sort();
  return true;
}

Parts::Ranks Parts::prefetch_next() const {
  if (next_turn_ == turns_.size()) return {};
  const std::uint32_t next = turns_[next_turn_];
  parts_[next].waiting.prefetch();
  prefetch(arrived_[next].data(), arrived_[next].data() + arrived_[next].size());
  return parts_[next].ranks;
}

void Parts::appoint(std::uint32_t part, Nanoseconds time) {
  parts_[part].wakes = time;
  agenda_.push({time, part});
}

bool Parts::next_span() {
  turns_.clear();
  next_turn_ = 0;
  while (!agenda_.empty() && (turns_.empty() || agenda_.top().time < end_)) {
    const auto [time, part] = agenda_.top();
    agenda_.pop();
    if (time != parts_[part].wakes) continue;  // has another appointment since
    if (turns_.empty()) end_ = time + span_;
    parts_[part].wakes = -1;
    turns_.push_back(part);
  }
  std::sort(turns_.begin(), turns_.end());  // the state of parts lies in their order
  return !turns_.empty();
}

void Parts::leave() {
  const Nanoseconds earliest = parts_[present_].waiting.earliest();
  parts_[present_].wakes = never;
  if (earliest != never) appoint(present_, earliest);
  present_ = none;
}

}  // namespace fabring::simulation
