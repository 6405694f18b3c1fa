// Letters of the control plane between engines: lists of members, questions about communicators that were dropped, and
// what ranks of a shrink say to each other. The latter go to one that takes part in it: whatever it hears, it decides
// once, and never leaves itself out.

#include "runtime/engine/members/dropped.hpp"
#include "runtime/engine/members/membership.hpp"
#include "runtime/engine/members/shrink_agreement.hpp"
#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::letters {
namespace {

constexpr int members = 5;
constexpr Rank self = 2;

ShrinkLetter letter(ShrinkLetter::Kind kind, MemberSet gone) {
  ShrinkLetter made;
  made.kind = kind;
  made.communicator = 7;
  made.id = 99;
  made.ended = made.gone = std::move(gone);
  made.waited_for = MemberSet(members);
  return made;
}

}  // namespace

void run(std::string_view input) {
  ShrinkAgreement agreement(7, 0, members, self, 42);
  Rank from = 0;
  for (Pieces pieces(input); !pieces.empty(); from = (from + 1) % members) {
    const std::string_view bytes = pieces.text();
    if (const auto list = MemberList::decode(1, bytes, members)) require(list->encode() == bytes, "a list is exact");
    if (const auto dropped = DroppedLetter::decode(bytes)) require(dropped->encode() == bytes, "an answer is exact");
    const auto heard = ShrinkLetter::decode(bytes);
    if (!heard) continue;
    require(heard->encode() == bytes, "a letter is exact");
    const auto before = agreement.state();
    const std::uint32_t id = agreement.id();
    if (heard->gone.size() == members) agreement.heard(from, *heard);  // Shrinks looks at that, and who it is from
    for (const auto& [to, answer] : agreement.take_letters())
      require(to >= 0 && to < members && to != self, "letters are to the others");
    if (before == ShrinkAgreement::State::decided)
      require(agreement.state() == before && agreement.id() == id, "what is decided stays");
    if (agreement.state() == ShrinkAgreement::State::decided)
      require(!agreement.gone()[self], "it is in the new group");
  }
}

Seeds seeds() {
  using Kind = ShrinkLetter::Kind;
  const MemberSet none(members), low = {true, true, false, false, false}, own = {false, false, true, false, false};
  return {piece(MemberList{1, 77, {4, 0, 2}}.encode()),
          piece(DroppedLetter{true, 7, 9, true, 3}.encode()),
          piece(letter(Kind::ask, none).encode()) + piece(letter(Kind::wait, none).encode()),
          piece(letter(Kind::decided, none).encode()) + piece(letter(Kind::decided, low).encode()),
          piece(letter(Kind::report, low).encode()) + piece(letter(Kind::report, low).encode()) +
              piece(letter(Kind::report, low).encode()) + piece(letter(Kind::report, low).encode()) +
              piece(letter(Kind::report, low).encode()),
          piece(letter(Kind::decided, own).encode())};
}

}  // namespace fabring::fuzz::letters
