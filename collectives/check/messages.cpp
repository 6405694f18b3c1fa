#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"

namespace fabring::check {
namespace {

std::string text(StepRef ref, const World& world) {
  return "rank " + std::to_string(ref.rank) + ", step " + std::to_string(ref.step) + " (" +
         step_text(world.plan(ref.rank), world.step(ref)) + ")";
}

constexpr StepId none = ~StepId{0};

struct End {
  Rank from;
  Rank to;
  std::uint32_t message;
  bool sending;
  StepRef ref;
};

/// Follows one chain of "waits for" from a stuck step; what blocks it, in words.
std::string explain(const World& world, const Partners& partners, const std::vector<std::vector<bool>>& done,
                    const std::vector<std::vector<std::uint32_t>>& waiting, StepRef stuck) {
  std::string chain = text(stuck, world);
  for (int links = 0; links < 6; ++links) {
    const auto rank = static_cast<std::size_t>(stuck.rank);
    if (waiting[rank][stuck.step] == 0) {
      stuck = partners[rank][stuck.step];
      chain += " needs " + text(stuck, world);
      continue;
    }
    const Plan& plan = world.plans[rank];
    const bool reduces = plan.steps[stuck.step].kind == StepKind::recv_reduce;
    StepId blocking = none;
    for (StepId id = 0; id < stuck.step; ++id) {
      const Step& step = plan.steps[id];
      const auto* first = plan.successors.data() + step.first_successor;
      if (done[rank][id]) continue;
      if (std::find(first, first + step.successor_count, stuck.step) != first + step.successor_count) {
        blocking = id;
        break;
      }
      if (reduces && step.kind == StepKind::recv_reduce) blocking = id;
    }
    if (blocking == none) break;
    stuck.step = blocking;
    chain += ", which waits for " + text(stuck, world);
  }
  return chain;
}

}  // namespace

Result<Partners> match_messages(const World& world) {
  std::vector<End> ends;
  Partners partners(world.plans.size());
  for (Rank rank = 0; rank < static_cast<Rank>(world.plans.size()); ++rank) {
    const Plan& plan = world.plan(rank);
    partners[static_cast<std::size_t>(rank)].resize(plan.steps.size());
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      const Step& step = plan.steps[id];
      if (sends(step)) ends.push_back({rank, step.peer, step.message, true, {rank, id}});
      if (receives(step)) ends.push_back({step.peer, rank, step.message, false, {rank, id}});
    }
  }
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) {
    return std::tie(a.from, a.to, a.message, a.sending) < std::tie(b.from, b.to, b.message, b.sending);
  });

  std::uint32_t expected = 0;
  for (std::size_t i = 0; i < ends.size(); i += 2) {
    const End& receive = ends[i];
    if (i == 0 || receive.from != ends[i - 1].from || receive.to != ends[i - 1].to) expected = 0;
    const auto fail = [&](const std::string& what) {
      return broken(world.plan(receive.ref.rank), receive.ref.step,
                    "message " + std::to_string(receive.message) + what);
    };
    const bool paired = i + 1 < ends.size() && ends[i + 1].from == receive.from && ends[i + 1].to == receive.to &&
                        ends[i + 1].message == receive.message;
    if (!paired) return fail(receive.sending ? " has no receive" : " has no send");
    const End& send = ends[i + 1];
    if (send.sending == receive.sending) return fail(" is there twice: also " + text(send.ref, world));
    if (receive.message != expected++) return fail(": the one before it is missing; messages count from 0");
    const Bounds source = world.bounds(send.ref.rank, world.step(send.ref).from);
    const Bounds target = world.bounds(receive.ref.rank, world.step(receive.ref).to);
    const std::size_t sent = source.count(), received = target.count();
    if (sent != received) {
      return fail(": takes " + std::to_string(received) + " elements, but " + text(send.ref, world) + " sends " +
                  std::to_string(sent));
    }
    world.note_equal_lengths(source, target);
    for (const End* end : {&send, &receive})
      if (expected > 1 && end->ref.step < ends[i - (end == &send ? 1 : 2)].ref.step)
        return broken(world.plan(end->ref.rank), end->ref.step,
                      "message " + std::to_string(end->message) + " comes before the one before it, " +
                          text(ends[i - (end == &send ? 1 : 2)].ref, world) +
                          "; messages are numbered in the order of the steps");
    partners[static_cast<std::size_t>(send.ref.rank)][send.ref.step] = receive.ref;
    partners[static_cast<std::size_t>(receive.ref.rank)][receive.ref.step] = send.ref;
  }
  return partners;
}

Result<Schedule> schedule(const World& world, const Partners& partners) {
  const std::size_t ranks = world.plans.size();
  Schedule result;
  std::vector<std::vector<std::uint32_t>> waiting(ranks);
  std::vector<std::vector<std::size_t>> rounds(ranks);
  std::vector<std::vector<bool>> done(ranks);
  // What is reduced as it comes is taken one after the other. By step: the next such one of its rank.
  std::vector<std::vector<StepId>> reduced_next(ranks);
  std::vector<StepRef> ready;
  std::size_t steps = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Plan& plan = world.plans[rank];
    rounds[rank].resize(plan.steps.size());
    done[rank].resize(plan.steps.size());
    steps += plan.steps.size();
    reduced_next[rank].assign(plan.steps.size(), none);
    StepId reduced_before = none;
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      waiting[rank].push_back(plan.steps[id].dependencies);
      if (plan.steps[id].kind == StepKind::recv_reduce) {
        if (reduced_before != none) {
          reduced_next[rank][reduced_before] = id;
          ++waiting[rank][id];
        }
        reduced_before = id;
      }
      if (waiting[rank][id] == 0) ready.push_back({static_cast<Rank>(rank), id});
    }
  }
  std::size_t completed = 0;
  const auto complete = [&](StepRef ref, std::size_t round) {
    const auto rank = static_cast<std::size_t>(ref.rank);
    const Step& step = world.step(ref);
    done[rank][ref.step] = true;
    ++completed;
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepId after = world.plans[rank].successors[step.first_successor + i];
      rounds[rank][after] = std::max(rounds[rank][after], round);
      if (--waiting[rank][after] == 0) ready.push_back({ref.rank, after});
    }
    const StepId next = reduced_next[rank][ref.step];
    if (next != none && --waiting[rank][next] == 0) ready.push_back({ref.rank, next});
  };

  for (std::size_t next = 0; next < ready.size(); ++next) {  // grows while it is walked
    const StepRef ref = ready[next];
    const auto rank = static_cast<std::size_t>(ref.rank);
    const StepRef other = partners[rank][ref.step];
    if (other.rank < 0) {
      result.order.push_back(ref);
      complete(ref, rounds[rank][ref.step]);
      continue;
    }
    const auto peer = static_cast<std::size_t>(other.rank);
    if (waiting[peer][other.step] != 0 || done[rank][ref.step]) continue;  // its partner will find it, or has
    const std::size_t round = std::max(rounds[rank][ref.step], rounds[peer][other.step]) + 1;
    result.rounds = std::max(result.rounds, round);
    ++result.messages;
    result.order.push_back(sends(world.step(ref)) ? other : ref);
    complete(ref, round);
    complete(other, round);
  }
  if (completed == steps) return result;

  StepRef stuck;
  for (std::size_t rank = 0; rank < ranks && stuck.rank < 0; ++rank) {
    const auto found = std::find(done[rank].begin(), done[rank].end(), false);
    if (found != done[rank].end()) stuck = {static_cast<Rank>(rank), static_cast<StepId>(found - done[rank].begin())};
  }
  return Status(ErrorCode::internal,
                "deadlock (" + world.plans[0].algorithm + "): " + explain(world, partners, done, waiting, stuck));
}

}  // namespace fabring::check
