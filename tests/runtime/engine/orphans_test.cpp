// What comes for communicators that are not made here yet, and what becomes of it.

#include "runtime/engine/messages/orphans.hpp"

#include <gmock/gmock.h>

namespace fabring {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Slot slot = Transfer::first_granted_slot + 3;

Record record_of(RecordKind kind, std::uint32_t communicator, std::uint32_t sequence, Slot granted = 0) {
  Record record;
  record.kind = kind;
  record.communicator = communicator;
  record.sequence = sequence;
  record.slot = granted;
  return record;
}
Record grant_of(std::uint32_t communicator, std::uint32_t sequence, Slot granted = slot) {
  return record_of(RecordKind::grant, communicator, sequence, granted);
}
Record withdrawal_of(std::uint32_t communicator, std::uint32_t sequence) {
  return record_of(RecordKind::withdrawn, communicator, sequence);
}

std::vector<RecordKind> kinds(const std::vector<Orphans::Orphan>& orphans) {
  std::vector<RecordKind> kinds;
  for (const Orphans::Orphan& orphan : orphans) kinds.push_back(orphan.record.kind);
  return kinds;
}

TEST(Orphans, are_there_again_in_their_order_once_a_communicator_was_made) {
  Orphans orphans(2);
  EXPECT_FALSE(orphans.take(1, grant_of(7, 1), {}).too_much);
  EXPECT_FALSE(orphans.take(0, record_of(RecordKind::data, 7, 1), {std::byte{5}}).too_much);
  EXPECT_FALSE(orphans.is_wanted());
  EXPECT_THAT(orphans.release(), IsEmpty());

  orphans.look_again();
  EXPECT_TRUE(orphans.is_wanted());
  const auto released = orphans.release();
  EXPECT_FALSE(orphans.is_wanted());
  ASSERT_THAT(kinds(released), ElementsAre(RecordKind::grant, RecordKind::data));
  EXPECT_EQ(released[0].peer, 1);
  EXPECT_EQ(released[0].record.slot, slot);
  EXPECT_EQ(released[1].peer, 0);
  EXPECT_THAT(released[1].payload, ElementsAre(std::byte{5}));
  orphans.look_again();
  EXPECT_THAT(orphans.release(), IsEmpty());
}

TEST(Orphans, that_are_grants_are_declined_when_they_are_withdrawn) {
  Orphans orphans(2);
  EXPECT_THAT(orphans.take(1, grant_of(7, 1, slot), {}).to_decline, IsEmpty());
  EXPECT_THAT(orphans.take(1, grant_of(7, 1, slot + 1), {}).to_decline, IsEmpty());
  (void)orphans.take(1, grant_of(7, 2), {});
  (void)orphans.take(1, grant_of(8, 1), {});
  (void)orphans.take(0, grant_of(7, 1), {});
  EXPECT_THAT(orphans.take(1, withdrawal_of(7, 1), {}).to_decline, ElementsAre(slot, slot + 1));

  orphans.look_again();
  EXPECT_THAT(kinds(orphans.release()),
              ElementsAre(RecordKind::grant, RecordKind::grant, RecordKind::grant, RecordKind::withdrawn))
      << "those of another operation, communicator or rank stay";
}

TEST(Orphans, that_are_grants_are_declined_also_when_their_withdrawal_came_before_them) {
  Orphans orphans(2);
  EXPECT_THAT(orphans.take(1, withdrawal_of(7, 1), {}).to_decline, IsEmpty());
  EXPECT_THAT(orphans.take(1, grant_of(7, 1), {}).to_decline, ElementsAre(slot));
  EXPECT_THAT(orphans.take(1, grant_of(7, 2), {}).to_decline, IsEmpty());
  EXPECT_THAT(orphans.take(0, grant_of(7, 1), {}).to_decline, IsEmpty());
  // Of a hostile peer: a slot of Transfer's own, which nobody may decline.
  EXPECT_THAT(orphans.take(1, grant_of(7, 1, first_landing_slot), {}).to_decline, IsEmpty());
}

TEST(Orphans, of_one_rank_have_so_much_room_and_those_of_another_their_own) {
  static_assert(Orphans::usual_limit == std::size_t{256} << 20);
  EXPECT_EQ(Orphans(1).limit(), Orphans::usual_limit);
  constexpr std::size_t payload = 1000, each = payload + sizeof(Orphans::Orphan);
  Orphans orphans(2, 3 * each);
  const Record data = record_of(RecordKind::data, 7, 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(orphans.take(1, data, std::vector<std::byte>(payload)).too_much) << i;
  EXPECT_TRUE(orphans.take(1, data, {}).too_much);
  EXPECT_FALSE(orphans.take(0, data, std::vector<std::byte>(payload)).too_much);

  orphans.look_again();
  EXPECT_EQ(orphans.release().size(), 4u);
  EXPECT_FALSE(orphans.take(1, data, std::vector<std::byte>(3 * each - sizeof(Orphans::Orphan))).too_much);
  EXPECT_TRUE(orphans.take(1, data, {}).too_much);
}

TEST(Orphans, that_were_declined_give_their_room_back) {
  Orphans orphans(2, 3 * sizeof(Orphans::Orphan));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(orphans.take(1, grant_of(7, 1), {}).too_much);
  const Orphans::Answer answer = orphans.take(1, withdrawal_of(7, 1), {});
  EXPECT_EQ(answer.to_decline.size(), 3u);
  EXPECT_FALSE(answer.too_much);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(orphans.take(1, grant_of(8, 1), {}).too_much);
  EXPECT_TRUE(orphans.take(1, grant_of(8, 1), {}).too_much);
}

}  // namespace
}  // namespace fabring
