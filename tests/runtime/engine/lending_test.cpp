// What PreparedPlan says may stay with its sender, and may come back before it is given back, proved over all
// algorithms: with loans that end only when they have been read, everything still happens; and nobody sends what comes
// back before it has read what that is made of.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/engine/plans/prepared_plan.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using Message = std::tuple<Rank, Rank, std::uint32_t>;  // from, to, number

struct World {
  explicit World(const std::vector<Plan>& plans) {
    for (const Plan& plan : plans) prepared.push_back(std::make_unique<PreparedPlan>(plan));
    for (const auto& one : prepared)
      for (StepId id = 0; id < one->plan.steps.size(); ++id) {
        const Step& step = one->plan.steps[id];
        if (step.kind == StepKind::send) sends[{one->plan.rank, step.peer, step.message}] = id;
        if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce)
          receives[{step.peer, one->plan.rank, step.message}] = id;
      }
  }
  const PreparedPlan& at(Rank rank) const { return *prepared[static_cast<std::size_t>(rank)]; }

  /// The step that reads the message of this receive; itself for a recv_reduce.
  StepId reader(Rank rank, StepId receive) const {
    for (StepId id = 0; id < at(rank).last_reader.size(); ++id)
      for (const StepId read : at(rank).last_reader[id])
        if (read == receive) return id;
    return receive;
  }

  /// May its message stay with its sender? On a device some more may than of the host's memory.
  bool stays(Rank rank, StepId receive, bool on_device) const {
    const StepId only = at(rank).only_reader[receive];
    return at(rank).may_stay[receive] || (on_device && only != PreparedPlan::none && at(rank).reads_early[only]);
  }

  /// Has it been read?
  bool was_read(Rank rank, StepId receive, bool on_device, const std::vector<bool>& done) const {
    const StepId by = reader(rank, receive);
    if (!on_device || !at(rank).reads_early[by]) return done[by];
    const auto& all = at(rank).last_reader[by];
    return std::all_of(all.begin(), all.end(), [&](StepId other) { return done[other]; });
  }

  /// Lends everything that may be lent. True if all steps of all ranks are done in the end.
  bool runs(bool on_device) const {
    std::vector<std::vector<std::uint32_t>> need;
    std::vector<std::vector<bool>> done, here, lent;
    for (const auto& one : prepared) {
      need.push_back(one->dependencies);
      done.emplace_back(one->plan.steps.size(), false);
    }
    here = lent = done;
    std::size_t left = 0;
    for (const auto& steps : done) left += steps.size();
    const auto finish = [&](Rank rank, StepId id) {
      const auto r = static_cast<std::size_t>(rank);
      done[r][id] = true;
      --left;
      const Step& step = at(rank).plan.steps[id];
      for (std::uint32_t i = 0; i < step.successor_count; ++i) {
        const StepId next = at(rank).plan.successors[step.first_successor + i];
        if (!lent[r][id] || !at(rank).comes_back(id, next)) --need[r][next];
      }
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < static_cast<Rank>(prepared.size()); ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const PreparedPlan& own = at(rank);
        for (StepId id = 0; id < own.plan.steps.size(); ++id) {
          const Step& step = own.plan.steps[id];
          if (done[r][id] || need[r][id] > 0) continue;
          if (step.kind == StepKind::send) {
            const Message message{rank, step.peer, step.message};
            const StepId receive = receives.at(message);
            const auto p = static_cast<std::size_t>(step.peer);
            if (stays(step.peer, receive, on_device)) {
              if (!lent[r][id]) {  // a receive that may stay is granted as soon as a tile begins, or when it is ready
                if (at(step.peer).plan.steps[receive].kind == StepKind::recv && need[p][receive] > 0) continue;
                lent[r][id] = here[p][receive] = moved = true;
                for (std::uint32_t i = 0; i < step.successor_count; ++i)
                  if (const StepId next = own.plan.successors[step.first_successor + i]; own.comes_back(id, next))
                    --need[r][next];
              }
              if (!was_read(step.peer, receive, on_device, done[p])) continue;
            } else {
              if (need[p][receive] > 0 || here[p][receive]) continue;
              here[p][receive] = true;
            }
          } else if ((step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) && !here[r][id]) {
            continue;
          }
          finish(rank, id);
          moved = true;
        }
      }
    }
    return left == 0;
  }

  std::vector<std::unique_ptr<PreparedPlan>> prepared;
  std::map<Message, StepId> sends, receives;
};

/// Does `last` come after `first` by the plan's own dependencies?
bool follows(const Plan& plan, StepId first, StepId last) {
  std::vector<bool> after(plan.steps.size(), false);
  after[first] = true;
  for (StepId id = first; id < last; ++id) {
    if (!after[id]) continue;
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) after[plan.successors[step.first_successor + i]] = true;
  }
  return after[last];
}

TEST(Lending, ends_and_harms_nothing_in_any_plan) {
  std::size_t loans = 0, returns = 0;
  for (const test::Form form : test::all_forms()) {
    std::vector<test::NodeOf> worlds;
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) worlds.push_back(test::flat(ranks));
    if (form.algorithm == Algorithm::hierarchical)
      for (const auto& shape : std::vector<std::vector<int>>{{2, 2}, {4, 4}, {3, 1, 2}, {2, 2, 2, 2, 2, 2}, {4, 3}})
        worlds.push_back(test::nodes_of(shape));
    for (const auto& nodes : worlds) {
      const auto plans = test::plans_of(form, nodes);
      if (plans.empty()) continue;
      const World world(plans);
      for (const bool on_device : {false, true})
        ASSERT_TRUE(world.runs(on_device))
            << test::text(form) << ", " << test::text(nodes) << ": ranks would wait for each other's loans for ever";
      for (const auto& own : world.prepared)
        for (StepId send = 0; send < own->plan.steps.size(); ++send) {
          const Step& step = own->plan.steps[send];
          if (step.kind != StepKind::send) continue;
          const PreparedPlan& peer = world.at(step.peer);
          const StepId receive = world.receives.at({own->plan.rank, step.peer, step.message});
          if (!peer.may_stay[receive]) continue;
          ++loans;
          for (std::uint32_t i = 0; i < step.successor_count; ++i) {
            const StepId back = own->plan.successors[step.first_successor + i];
            if (!own->comes_back(send, back)) continue;
            ++returns;
            const StepId sent = world.sends.at({step.peer, own->plan.rank, own->plan.steps[back].message});
            ASSERT_TRUE(follows(peer.plan, world.reader(step.peer, receive), sent))
                << test::text(form) << ", " << test::text(nodes) << ": rank " << step.peer
                << " would write over what it has not read";
          }
        }
    }
  }
  EXPECT_GT(loans, 1000u);
  EXPECT_GT(returns, 100u);
}

}  // namespace
}  // namespace fabring
