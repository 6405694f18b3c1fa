#include "runtime/engine/plans/plan_cache.hpp"

#include <algorithm>

#include "collectives/builder.hpp"
#include "runtime/engine/plans/given_plan.hpp"

namespace fabring {
namespace {

// One message; whoever does not know yet from whom has no step.
Plan message_plan(Collective collective, Rank self, int size, Rank peer) {
  PlanBuilder plan("message", self, size);
  if (peer >= 0 && peer != self) {
    if (collective == Collective::send) {
      plan.send(peer, plan.input(plan.whole()));
    } else {
      plan.recv(peer, plan.output(plan.whole()));
    }
  }
  Plan made = std::move(plan).build();
  made.collective = collective;
  made.largest_message = message_unit;
  return made;
}

}  // namespace

void PlanCache::count(std::deque<Key>& kind, std::size_t most, const Key& key) {
  if (kind.size() >= most) {
    plans_.erase(kind.front());
    kind.pop_front();
  }
  kind.push_back(key);
}

Result<std::shared_ptr<const PreparedPlan>> PlanCache::find_or_make(const Call& call, Rank self,
                                                                    const std::vector<int>& node_of) {
  if (call.given) return call.given->plan;
  const bool average = reduces(call.collective) && call.op == ReduceOp::avg;
  const bool rooted = has_root(call.collective) || is_message(call.collective);
  const Key key{call.collective, call.algorithm, average, rooted ? call.root : 0};
  if (const auto at = plans_.find(key); at != plans_.end()) return at->second;
  std::shared_ptr<const PreparedPlan> plan;
  if (is_message(call.collective)) {
    plan = std::make_shared<PreparedPlan>(
        message_plan(call.collective, self, static_cast<int>(node_of.size()), call.root));
  } else {
    auto made = make_plan({call.algorithm, self, node_of, average ? ReduceOp::avg : ReduceOp::sum, call.collective,
                           rooted ? call.root : 0});
    if (!made) return made.error();
    plan = std::make_shared<PreparedPlan>(std::move(*made));
  }
  if (is_message(call.collective)) {
    const std::size_t to_and_from_all = 2 * node_of.size() + 1;  // and from any
    count(messages_, std::clamp(to_and_from_all, most_rooted, most_messages), key);
  } else if (rooted) {
    count(rooted_, most_rooted, key);
  }
  plans_.emplace(key, plan);
  return plan;
}

}  // namespace fabring
