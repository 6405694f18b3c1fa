// Cards that do not open: which of them end the start of a rank, and what is said of the others.

#include "runtime/startup/card_opening.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "transports/inproc/inproc_transport.hpp"

namespace fabring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Opening {
  std::vector<std::string> broken;
  std::vector<std::string> said;

  Result<std::vector<rails::Rail>> run(bool first_is_needed) {
    std::vector<rails::Card> cards;
    for (const char* name : {"rdmap0s1", "rdmap1s1", "rdmap2s1"}) cards.push_back({name, "fabric", "", 100'000, true});
    const auto open = [&](const rails::Card& card) -> Result<std::unique_ptr<Endpoint>> {
      if (std::find(broken.begin(), broken.end(), card.name) != broken.end())
        return Status(ErrorCode::transport_error, "fi_enable of " + card.name);
      EndpointOptions options;
      options.world_size = 2;
      return make_inproc_transport(make_inproc_fabric(2))->open(options);
    };
    return open_cards(cards, first_is_needed, open, [this](const std::string& text) { said.push_back(text); });
  }
};

std::vector<std::string> names(const std::vector<rails::Rail>& opened) {
  std::vector<std::string> all;
  for (const rails::Rail& rail : opened) all.push_back(rail.card.name);
  return all;
}

TEST(CardOpening, GoesOnWithoutTheFirstOfSeveralDevices) {
  Opening opening{{"rdmap0s1"}, {}};
  const auto opened = opening.run(false);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_THAT(names(*opened), ElementsAre("rdmap1s1", "rdmap2s1"));
  EXPECT_THAT(opening.said, ElementsAre(HasSubstr("card rdmap0s1 is not used: fi_enable")));
}

TEST(CardOpening, EndsWhereTheFirstIsNeeded) {
  Opening opening{{"rdmap0s1"}, {}};
  const auto opened = opening.run(true);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("rdmap0s1"));
}

TEST(CardOpening, LeavesOutAnotherThanTheFirstInAnyCase) {
  for (const bool first_is_needed : {false, true}) {
    Opening opening{{"rdmap1s1"}, {}};
    const auto opened = opening.run(first_is_needed);
    ASSERT_TRUE(opened);
    EXPECT_THAT(names(*opened), ElementsAre("rdmap0s1", "rdmap2s1"));
    EXPECT_EQ(opening.said.size(), 1u);
  }
}

TEST(CardOpening, SaysHowManyDidNotOpenWhereNoneDid) {
  Opening opening{{"rdmap0s1", "rdmap1s1", "rdmap2s1"}, {}};
  const auto opened = opening.run(false);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::transport_error);
  EXPECT_THAT(opened.error().message(), AllOf(HasSubstr("none of 3 cards opened"), HasSubstr("fi_enable of rdmap0s1")));
}

}  // namespace
}  // namespace fabring
