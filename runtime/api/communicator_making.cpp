// Communicators that are made of others, by all their members together: split, duplicate, subgroup, shrink.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fabring/communicator.hpp"
#include "runtime/api/communicator_making.hpp"
#include "runtime/api/engine_of.hpp"
#include "runtime/api/own_rank.hpp"
#include "runtime/api/run_step.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t subgroup_ids = CommunicatorCore::subgroup_ids;

// The number of a communicator that a split makes, as far as this rank has claimed it.
class ClaimedNumber {
 public:
  ClaimedNumber(EngineCore& engine, std::uint32_t parent)
      : engine_(engine), parent_(parent), held_(engine.propose_communicator_id(0, parent, 0)) {}
  ~ClaimedNumber() { give_back(); }
  ClaimedNumber(const ClaimedNumber&) = delete;
  ClaimedNumber& operator=(const ClaimedNumber&) = delete;

  std::uint32_t proposed() const { return held_; }
  /// What all have agreed on, instead of what was proposed; false if it is another's here.
  bool take(std::uint32_t agreed) {
    const bool free = engine_.claim_communicator_id(held_, agreed);
    held_ = free ? agreed : 0;
    return free;
  }
  /// It is not given to another communicator of this rank's.
  void leave() { held_ = 0; }
  std::uint32_t propose_again(std::uint32_t at_least) {
    give_back();
    held_ = engine_.propose_communicator_id(at_least, parent_, ++failed_);
    return held_;
  }

 private:
  void give_back() {
    if (held_ != 0) engine_.give_back_communicator_id(std::exchange(held_, 0));
  }

  EngineCore& engine_;
  const std::uint32_t parent_;
  std::uint32_t held_;  // 0: none
  unsigned failed_ = 0;
};

/// For one that the caller gave no name: no other that is made of this communicator has it.
std::string name_of_next(const CommunicatorCore& of, std::string name) {
  const std::uint32_t before = of.splits.load();
  return before == 0 ? name : fmt::format("{}.{}", name, before + 1);
}

/// It is in every message about the communicator, on this rank only, and these are shown on terminals.
std::string presentable(std::string label) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::replace_if(label.begin(), label.end(), is_control, '?');
  constexpr std::size_t most = 200;
  if (label.size() <= most) return label;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(label[end]) & 0xc0) == 0x80) --end;  // not within a character of UTF-8
  label.resize(end);
  return label + "...";
}

/// Those of this colour, by key. `told`: colour, key and a number of each rank.
std::vector<Rank> members_of(int colour, const std::vector<std::int64_t>& told, const std::vector<Rank>& all) {
  std::vector<std::size_t> chosen;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (told[3 * rank] == colour) chosen.push_back(rank);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](std::size_t a, std::size_t b) { return told[3 * a + 1] < told[3 * b + 1]; });
  std::vector<Rank> members;
  members.reserve(chosen.size());
  for (const std::size_t rank : chosen) members.push_back(all[rank]);
  return members;
}

/// What a rank asks of a split, or of what is one: `of` says how the program called it.
struct Part {
  StepOf of;
  int colour;
  int key;
};

Result<Communicator> split_into(const std::shared_ptr<CommunicatorCore>& core, const Part& own, std::string label) {
  const auto engine = engine_of(core);
  if (!engine) return no_engine(core);
  core->splits.fetch_add(1);
  // Everyone's colour, key and proposal for the number.
  const auto size = static_cast<std::size_t>(core->size());
  ClaimedNumber number(*engine, core->id);
  std::vector<std::int64_t> told(3 * size, 0);
  told[3 * core->self] = own.colour;
  told[3 * core->self + 1] = own.key;
  told[3 * core->self + 2] = number.proposed();
  const auto agree = [&](void* values, std::size_t count, DataType type, ReduceOp op) {
    return run_step(core, Operation::allreduce(values, values, count, type, op), own.of);
  };
  FABRING_TRY(agree(told.data(), told.size(), DataType::int64, ReduceOp::sum));
  std::vector<Rank> members;
  if (own.of == StepOf::duplicate || own.of == StepOf::with_plans) {
    members = core->members;
  } else if (own.colour >= 0) {
    members = members_of(own.colour, told, core->members);
  }
  label = presentable(std::move(label));
  std::uint32_t id = 0;
  for (std::size_t rank = 0; rank < size; ++rank) id = std::max(id, static_cast<std::uint32_t>(told[3 * rank + 2]));
  while (true) {
    // Another split, by another thread, may have it on some rank.
    const bool free_here = number.take(id);
    std::uint32_t free_on_all = free_here ? 1 : 0;
    if (const Status agreed = agree(&free_on_all, 1, DataType::uint32, ReduceOp::min); !agreed.ok()) {
      if (free_here && !members.empty()) {
        number.leave();  // to those who may have it
        engine->did_not_make(id, label, members, agreed);
      }
      return agreed;
    }
    if (free_on_all != 0) break;
    id = number.propose_again(id + 1);
    FABRING_TRY(agree(&id, 1, DataType::uint32, ReduceOp::max));
  }
  if (id >= Shrinks::first_id)
    return Status(ErrorCode::unsupported,
                  fmt::format("{} of '{}': no communicator number is left", name(own.of), core->label));
  if (members.empty()) return Communicator();
  return Communicator(engine->make_communicator(id, std::move(label), members));
}

}  // namespace

Result<Communicator> duplicate_within(const std::shared_ptr<CommunicatorCore>& core, StepOf of, std::string label) {
  if (label.empty()) label = name_of_next(*core, core->label + "'");
  return split_into(core, {of, 0, 0}, std::move(label));
}

Result<Communicator> Communicator::split(int colour, int key, std::string label) {
  if (!core_) return gone;
  if (label.empty()) label = name_of_next(*core_, fmt::format("{}/{}", core_->label, colour));
  return split_into(core_, {StepOf::split, colour, key}, std::move(label));
}

Result<Communicator> Communicator::split_by_node(std::string label) {
  if (!core_) return gone;
  const int node = core_->node_of[static_cast<std::size_t>(core_->self)];
  if (label.empty()) label = name_of_next(*core_, fmt::format("{}/node {}", core_->label, node));
  return split_into(core_, {StepOf::split_by_node, node, 0}, std::move(label));
}

Result<Communicator> Communicator::duplicate(std::string label) {
  if (!core_) return gone;
  return duplicate_within(core_, StepOf::duplicate, std::move(label));
}

Result<Communicator> Communicator::subgroup(std::span<const Rank> ranks, std::uint32_t number, std::string label) {
  const auto engine = engine_of(core_);
  if (!engine) return no_engine(core_);
  const auto wrong = [&](std::string what) {
    return refused_subgroup(number, Status(ErrorCode::invalid_argument,
                                           fmt::format("a subgroup of '{}', rank {}{}: {}", core_->label, core_->self,
                                                       core_->in_the_job(core_->self), std::move(what))));
  };
  std::vector<bool> taken(core_->members.size(), false);
  std::vector<Rank> members;
  for (const Rank rank : ranks) {
    if (rank < 0 || rank >= core_->size())
      return wrong(fmt::format("there is no rank {}; ranks are 0 to {}", rank, core_->size() - 1));
    if (taken[static_cast<std::size_t>(rank)]) return wrong(fmt::format("rank {} is in the list twice", rank));
    taken[static_cast<std::size_t>(rank)] = true;
    members.push_back(core_->members[static_cast<std::size_t>(rank)]);
  }
  if (!taken[static_cast<std::size_t>(core_->self)]) return wrong("only ranks that are in the list may call");
  if (number >= subgroup_ids) return wrong(fmt::format("the number {} is not below 2^31", number));
  if (label.empty()) label = fmt::format("{}/subgroup {}", core_->label, number);
  auto made = engine->make_subgroup(subgroup_ids | number, presentable(std::move(label)), std::move(members));
  if (!made) return wrong(fmt::format("the number {} was given to an earlier one here; give another", number));
  return Communicator(std::move(made));
}

Result<Communicator> Communicator::shrink(std::string label) {
  const auto engine = engine_of(core_);
  if (!engine) return no_engine(core_);
  const auto agreed = engine->agree_who_is_left(*core_);
  if (!agreed) return agreed.error();
  std::vector<Rank> left, missing;
  for (std::size_t rank = 0; rank < core_->members.size(); ++rank)
    (agreed->gone[rank] ? missing : left).push_back(core_->members[rank]);
  std::sort(missing.begin(), missing.end());
  if (label.empty())
    label = missing.empty() ? core_->label + " again" : fmt::format("{} without {}", core_->label, rank_list(missing));
  return Communicator(engine->make_communicator(agreed->id, presentable(std::move(label)), std::move(left)));
}

Status Communicator::refused_subgroup(std::uint32_t number, const Status& why) {
  const auto engine = number < subgroup_ids ? engine_of(core_) : nullptr;
  if (engine) engine->refused_subgroup(subgroup_ids | number, why);
  return core_ ? with_own_rank(*core_, why) : why;
}

}  // namespace fabring
