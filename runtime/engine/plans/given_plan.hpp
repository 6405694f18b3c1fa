#pragma once
// GivenPlan: plans from outside (Communicator::with_plans) that a communicator runs instead of what it would choose.
// They are proved before, and what they may be used for comes from the proof, whatever algorithm they name. Of what the
// engine knows of its own algorithms nothing is assumed of them: PreparedPlan::Origin, and no rules of tiling by name.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collectives/check.hpp"
#include "collectives/prove.hpp"
#include "fabring/communicator.hpp"
#include "fabring/config.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

struct GivenPlan {
  /// Of rank `self`. `proof` is of `plans`, `text` what they were read from, the same on all ranks.
  static std::shared_ptr<const GivenPlan> make(std::span<const Plan> plans, const Proof& proof, Rank self,
                                               std::string_view text);

  /// Of plans as a text, by which ranks find out whether theirs are the same.
  static Result<std::uint64_t> digest_of(std::string_view text);

  /// Of every rank of `of`, which must call: its members once more, whose calls are run by these plans where they fit.
  /// Errors: invalid_argument if the plans are of another number of ranks; mismatch if ranks have different ones,
  /// naming two.
  static Result<Communicator> give(Communicator& of, std::span<const Plan> plans, const Proof& proof,
                                   std::string_view text, std::string label);

  /// The calls that they are run for: this collective, from or to this root, by the operations that they are for.
  bool is_for(const Call& call) const;
  /// Why such a call cannot be run by them; empty: it can.
  std::string why_not(const Call& call, const Config& config) const;

  std::shared_ptr<const PreparedPlan> plan;
  std::uint8_t mark = 0;             ///< some bits of a digest of `text`, for Signature::algorithm
  bool averages = false;             ///< has `finish`, which avg alone has
  OperandOrder order{false, false};  ///< what the proof shows
};

/// Of a signature's algorithm: plans from outside, and which.
inline constexpr std::uint8_t given_plan_mark = 0x80;

}  // namespace fabring
