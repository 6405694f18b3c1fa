#pragma once
// ShrinkAgreement: how the members of a communicator that are left agree on who that is. One member's part of one
// shrink; pure, without a clock: it is told who is lost and what has come, and says what is to be sent and what came of
// it.
//
// The lowest member that is left collects. Each member that has called reports to the one that it takes for the
// collector, with those whom it counts as gone; who hears of others that are gone counts them as gone too. When all
// that are left have reported, the collector decides, and tells them. If it goes before all have heard, the next one
// collects: a member that knows the decision answers with it. That it stays the only one follows from two rules: what
// comes from a member that is counted as gone does not count, and who reports to a collector counts all below it as
// gone. So a decision of an earlier collector is known to nobody who has reported to the next, and reaches nobody
// any more.
//
// Members that have ended are gone for certain. Where others may be alive (silent, or out of reach), a part of the
// ranks must not go on beside another one: it needs more than half of those that have not ended, or just half and the
// lowest of them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

/// Of members, by their rank in the communicator.
using MemberSet = std::vector<bool>;

struct ShrinkLetter {
  enum class Kind : std::uint8_t {
    report = 1,  ///< of a member that has called: whom it counts as gone
    ask,         ///< of the collector: report to me
    wait,        ///< of the collector, to who has reported: `waited_for` have not
    decided,     ///< those who are `gone` are left out, and the communicator of the others has this `id`
  };
  static constexpr char mark = 's';  ///< before it, in a letter of the control plane
  static constexpr std::size_t most_members = 65536;

  Kind kind = Kind::report;
  std::uint64_t communicator = 0;  ///< its global id
  std::uint32_t round = 0;         ///< which shrink of that communicator
  std::uint32_t id = 0;
  MemberSet gone;
  MemberSet ended;       ///< those of `gone` that are it for certain
  MemberSet waited_for;  ///< of the same size in every letter

  std::string encode() const;
  static std::optional<ShrinkLetter> decode(std::string_view bytes);
};

class ShrinkAgreement {
 public:
  enum class State : std::uint8_t {
    waiting,
    decided,
    refused,  ///< the others count this member as gone, or went on without it
  };
  struct Letter {
    Rank to;
    ShrinkLetter letter;
  };

  /// `id`: of the new communicator, if this member decides.
  ShrinkAgreement(std::uint64_t communicator, std::uint32_t round, int size, Rank self, std::uint32_t id);

  /// It is lost or has left.
  void exclude(Rank member, bool ended);
  void heard(Rank from, const ShrinkLetter& letter);
  /// Nothing has come for a while: letters may have been lost.
  void send_again();
  /// What is to be sent now, once.
  std::vector<Letter> take_letters();

  State state() const { return state_; }
  /// Of the new communicator, when it is decided.
  std::uint32_t id() const { return id_; }
  const MemberSet& gone() const { return gone_; }
  const MemberSet& ended() const { return ended_; }
  Rank collector() const;
  /// Those who are left must not go on. It may turn out that more of the others have ended.
  bool too_few() const;
  /// Whom the collector waits for, as far as known here; the collector itself, where it has not said.
  MemberSet waited_for() const;
  /// The answer of a member for which the shrink is over.
  ShrinkLetter decision() const;

 private:
  ShrinkLetter letter(ShrinkLetter::Kind kind) const;
  bool take(const ShrinkLetter& letter);
  void look();
  void decided(bool tell);
  void ask();
  std::size_t size() const { return gone_.size(); }

  const std::uint64_t communicator_;
  const std::uint32_t round_;
  const Rank self_;
  std::uint32_t id_;
  State state_ = State::waiting;
  MemberSet gone_, ended_;
  MemberSet reported_;                        // to this member, all that are below it gone for them
  Rank reports_to_ = -1;                      // the last report went there; the collector: itself, if it has asked
  std::optional<MemberSet> told_waited_for_;  // by the collector
  std::vector<Letter> letters_;
};

}  // namespace fabring
