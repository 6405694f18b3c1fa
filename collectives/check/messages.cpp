#include <algorithm>
#include <string>
#include <tuple>

#include "collectives/check/world.hpp"

namespace fabring::check {
namespace {

struct End {
  Rank from;
  Rank to;
  std::uint32_t message;
  bool sending;
  StepRef ref;
};

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
    if (send.sending == receive.sending) return fail(" is there twice: also " + place_text(world, send.ref));
    if (receive.message != expected++) return fail(": the one before it is missing; messages count from 0");
    const Bounds source = world.bounds(send.ref.rank, world.step(send.ref).from);
    const Bounds target = world.bounds(receive.ref.rank, world.step(receive.ref).to);
    const std::size_t sent = source.count(), received = target.count();
    if (sent != received) {
      return fail(": takes " + std::to_string(received) + " elements, but " + place_text(world, send.ref) + " sends " +
                  std::to_string(sent));
    }
    world.note_equal_lengths(source, target);
    for (const End* end : {&send, &receive})
      if (expected > 1 && end->ref.step < ends[i - (end == &send ? 1 : 2)].ref.step)
        return broken(world.plan(end->ref.rank), end->ref.step,
                      "message " + std::to_string(end->message) + " comes before the one before it, " +
                          place_text(world, ends[i - (end == &send ? 1 : 2)].ref) +
                          "; messages are numbered in the order of the steps");
    partners[static_cast<std::size_t>(send.ref.rank)][send.ref.step] = receive.ref;
    partners[static_cast<std::size_t>(receive.ref.rank)][receive.ref.step] = send.ref;
  }
  return partners;
}

}  // namespace fabring::check
