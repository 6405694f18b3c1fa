// Who is left, as members agree on it: whole groups in one thread from a seed, with letters that are late, overtake
// each other or are lost, and members that end at any moment. Whatever happens, all that live get the same answer.

#include "runtime/engine/members/shrink_agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace fabring {
namespace {

using State = ShrinkAgreement::State;

constexpr int never = 1 << 30, long_enough = 6000, patience = 50;

class Group {
 public:
  Group(int size, std::uint64_t seed) : random_(seed), seats_(static_cast<std::size_t>(size)) {
    late_ = below(2) == 0;
    lost_letters_ = below(2) == 0 ? 0 : below(40);
    for (Seat& seat : seats_) seat.calls_at = below(200);
  }

  int below(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }
  int size() const { return static_cast<int>(seats_.size()); }
  void dies(Rank member, int at) { seats_[index(member)].dies_at = at; }
  /// At the latest when it has decided as the one that collects, so that perhaps some have heard of it and others not.
  void dies_if_it_decides(Rank member) { seats_[index(member)].dies_if_it_decides = true; }
  /// From then on nothing gets from one part to the other, and each takes the other for lost after a while.
  void cut(int at, std::vector<bool> side) {
    cut_at_ = at;
    side_ = std::move(side);
  }

  void run() {
    for (Rank member = 0; member < size(); ++member) {
      const Seat& seat = seats_[index(member)];
      for (Rank other = 0; other < size(); ++other) {
        if (other == member) continue;
        if (!side_.empty() && side_[index(member)] != side_[index(other)])
          at(cut_at_ + 300 + below(100), [this, member, other] { hears_of(other, member, false); });
      }
      if (seat.dies_at < never) at(seat.dies_at, [this, member] { all_hear_of(member); });
      at(seat.calls_at, [this, member] { call(member); });
    }
    while (!events_.empty() && events_.begin()->first.first < long_enough) {
      now_ = events_.begin()->first.first;
      const auto event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
  }

  bool lives(Rank member) const { return !dead(member); }
  const ShrinkAgreement& of(Rank member) const { return *seats_[index(member)].agreement; }
  bool has_called(Rank member) const { return seats_[index(member)].agreement != nullptr; }
  bool is_decided(Rank member) const { return has_called(member) && of(member).state() == State::decided; }

 private:
  struct Seat {
    int calls_at = 0;
    int dies_at = never;
    bool dies_if_it_decides = false;
    std::map<Rank, bool> gone;  // has it ended?
    std::unique_ptr<ShrinkAgreement> agreement;
  };
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

  bool dead(Rank member) const { return now_ >= seats_[index(member)].dies_at; }
  bool cut_off(Rank a, Rank b, int when) const {
    return !side_.empty() && side_[index(a)] != side_[index(b)] && when >= cut_at_;
  }
  void at(int when, std::function<void()> what) { events_.emplace(std::pair(when, next_++), std::move(what)); }

  void all_hear_of(Rank lost) {
    for (Rank other = 0; other < size(); ++other) {
      const int heard = now_ + 1 + below(100);
      if (other != lost && !cut_off(other, lost, heard)) at(heard, [=, this] { hears_of(other, lost, true); });
    }
  }

  void hears_of(Rank member, Rank lost, bool ended) {
    Seat& seat = seats_[index(member)];
    if (dead(member)) return;
    seat.gone[lost] = seat.gone[lost] || ended;
    if (!seat.agreement) return;
    seat.agreement->exclude(lost, ended);
    send(member);
  }

  void call(Rank member) {
    Seat& seat = seats_[index(member)];
    if (dead(member)) return;
    seat.agreement = std::make_unique<ShrinkAgreement>(7, 0, size(), member, 100 + static_cast<std::uint32_t>(member));
    for (const auto& [other, ended] : seat.gone) seat.agreement->exclude(other, ended);
    send(member);
    if (lost_letters_ > 0 || late_ || !side_.empty()) at(now_ + patience, [this, member] { again(member); });
  }

  void again(Rank member) {
    ShrinkAgreement& agreement = *seats_[index(member)].agreement;
    if (dead(member) || agreement.state() != State::waiting) return;
    agreement.send_again();
    send(member);
    at(now_ + patience, [this, member] { again(member); });
  }

  void send(Rank from) {
    Seat& seat = seats_[index(from)];
    for (auto& [to, letter] : seat.agreement->take_letters()) post(from, to, letter);
    if (!seat.dies_if_it_decides || dead(from) || seat.agreement->state() != State::decided) return;
    seat.dies_at = now_;
    all_hear_of(from);
  }

  void post(Rank from, Rank to, const ShrinkLetter& letter) {
    if (below(100) < lost_letters_) return;
    const auto read = ShrinkLetter::decode(letter.encode());
    ASSERT_TRUE(read);
    at(now_ + 1 + below(late_ && below(4) == 0 ? 400 : 20), [this, from, to, letter = *read] {
      if (cut_off(from, to, now_) || dead(to)) return;
      Seat& seat = seats_[index(to)];
      if (!seat.agreement) return;
      if (seat.agreement->state() == State::decided) {
        if (letter.kind == ShrinkLetter::Kind::report || letter.kind == ShrinkLetter::Kind::ask)
          post(to, from, seat.agreement->decision());
        return;
      }
      seat.agreement->heard(from, letter);
      send(to);
    });
  }

  std::mt19937_64 random_;
  std::vector<Seat> seats_;
  int lost_letters_ = 0;  // of a hundred
  bool late_ = false;     // are some letters, so that they overtake each other?
  int cut_at_ = never;
  std::vector<bool> side_;
  int now_ = 0;
  std::uint64_t next_ = 0;
  std::map<std::pair<int, std::uint64_t>, std::function<void()>> events_;
};

std::string list(const MemberSet& set) {
  std::string text;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) text += std::to_string(i) + " ";
  return text;
}

TEST(ShrinkAgreement, those_who_live_agree_whoever_dies_and_when) {
  int with_a_dead_member = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int size = 1 + static_cast<int>(seed % 9);
    Group group(size, seed);
    for (Rank member = 0; member < size; ++member)  // one lives
      if (member != static_cast<Rank>(seed / 9 % static_cast<std::uint64_t>(size)) && group.below(2) == 0)
        group.below(2) == 0 ? group.dies(member, group.below(400)) : group.dies_if_it_decides(member);
    group.run();
    std::optional<Rank> first;
    for (Rank member = 0; member < size; ++member) {
      if (!group.lives(member)) continue;
      ASSERT_TRUE(group.is_decided(member))
          << "rank " << member << " waits for " << list(group.of(member).waited_for());
      if (!first) first = member;
      EXPECT_EQ(list(group.of(member).gone()), list(group.of(*first).gone())) << "ranks " << member << ", " << *first;
      EXPECT_EQ(group.of(member).id(), group.of(*first).id());
      EXPECT_FALSE(group.of(*first).gone()[static_cast<std::size_t>(member)]);
    }
    for (Rank member = 0; member < size; ++member) {
      if (!group.lives(member) && !group.of(*first).gone()[static_cast<std::size_t>(member)]) ++with_a_dead_member;
      // One that has ended since may have had the answer, but no other.
      if (group.is_decided(member) && !group.of(*first).gone()[static_cast<std::size_t>(member)]) {
        EXPECT_EQ(group.of(member).id(), group.of(*first).id());
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with_a_dead_member, 20) << "members that die after the others have decided were never tried";
}

TEST(ShrinkAgreement, of_two_parts_that_do_not_hear_each_other_one_goes_on_at_most) {
  int went_on = 0, early = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int size = 2 + static_cast<int>(seed % 8);
    Group group(size, seed);
    std::vector<bool> side;
    for (Rank member = 0; member < size; ++member) side.push_back(group.below(2) == 0);
    if (group.below(3) == 0) group.dies(static_cast<Rank>(group.below(size)), group.below(400));
    group.cut(group.below(300), side);
    group.run();
    bool goes_on[2] = {false, false};
    for (Rank member = 0; member < size; ++member) {
      if (!group.lives(member)) continue;
      ASSERT_TRUE(group.has_called(member));
      if (!group.is_decided(member)) {
        EXPECT_TRUE(group.of(member).too_few() || group.of(member).state() == State::refused) << "rank " << member;
        continue;
      }
      const auto own = side[static_cast<std::size_t>(member)];
      bool of_one_part = true;
      for (Rank other = 0; other < size; ++other)
        if (!group.of(member).gone()[static_cast<std::size_t>(other)] && side[static_cast<std::size_t>(other)] != own)
          of_one_part = false;
      if (of_one_part) goes_on[own ? 1 : 0] = true;
      early += of_one_part ? 0 : 1;
    }
    const bool two_parts = std::find(side.begin(), side.end(), !side[0]) != side.end();
    if (two_parts) {
      EXPECT_FALSE(goes_on[0] && goes_on[1]) << "both parts go on";
    }
    went_on += goes_on[0] || goes_on[1] ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(went_on, 1000);
  EXPECT_GT(early, 100) << "none had decided before the cut";
}

std::unique_ptr<ShrinkAgreement> member(Rank self, int size) {
  return std::make_unique<ShrinkAgreement>(7, 0, size, self, 100 + static_cast<std::uint32_t>(self));
}

TEST(ShrinkAgreement, half_of_those_who_may_be_alive_goes_on_if_it_has_the_lowest) {
  const auto low = member(0, 4), high = member(2, 4);
  for (const Rank lost : {2, 3}) low->exclude(lost, false);
  for (const Rank lost : {0, 1}) high->exclude(lost, false);
  EXPECT_FALSE(low->too_few());
  EXPECT_TRUE(high->too_few());
  high->exclude(0, true);
  EXPECT_FALSE(high->too_few()) << "of ranks 1, 2 and 3 two are left";
}

TEST(ShrinkAgreement, those_who_have_ended_need_no_majority_without_them) {
  const auto last = member(3, 4);
  for (const Rank lost : {0, 1, 2}) last->exclude(lost, true);
  EXPECT_EQ(last->state(), State::decided);
  EXPECT_EQ(last->id(), 103u);
  EXPECT_TRUE(last->take_letters().empty());
}

TEST(ShrinkAgreement, who_is_counted_as_gone_is_refused) {
  const auto lost = member(1, 3);
  ShrinkLetter decided;
  decided.kind = ShrinkLetter::Kind::decided;
  decided.communicator = 7;
  decided.gone = decided.ended = {false, true, false};
  decided.waited_for = MemberSet(3);
  lost->heard(0, decided);
  EXPECT_EQ(lost->state(), State::refused);
}

TEST(ShrinkAgreement, the_collector_names_whom_it_waits_for_to_those_who_have_reported) {
  const auto collector = member(0, 3), other = member(1, 3);
  (void)collector->take_letters();
  for (const auto& [to, letter] : other->take_letters()) collector->heard(1, letter);
  EXPECT_EQ(list(other->waited_for()), "0 ");
  collector->send_again();
  for (const auto& [to, letter] : collector->take_letters())
    if (to == 1) other->heard(0, letter);
  EXPECT_EQ(list(other->waited_for()), "2 ");
}

TEST(ShrinkLetter, is_the_same_after_the_way_or_is_none) {
  ShrinkLetter told;
  told.kind = ShrinkLetter::Kind::wait;
  told.communicator = (std::uint64_t{1} << 32) | 5;
  told.round = 3;
  told.id = 77;
  told.gone = {true, false, true, false, false, false, false, false, true};
  told.ended = {true, false, false, false, false, false, false, false, true};
  told.waited_for = {false, true, false, false, false, false, false, false, false};
  const std::string bytes = told.encode();
  const auto heard = ShrinkLetter::decode(bytes);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->encode(), bytes);
  EXPECT_EQ(heard->gone, told.gone);
  EXPECT_EQ(heard->ended, told.ended);
  EXPECT_EQ(heard->waited_for, told.waited_for);
  EXPECT_EQ(heard->kind, told.kind);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(ShrinkLetter::decode(std::string_view(bytes).substr(0, length)));
  std::string other = bytes;
  other[0] = 9;
  EXPECT_FALSE(ShrinkLetter::decode(other)) << "there is no such kind";
  other = bytes;
  other.back() = '\x7e';
  EXPECT_FALSE(ShrinkLetter::decode(other)) << "there is no tenth member";
}

}  // namespace
}  // namespace fabring
