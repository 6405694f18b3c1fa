// What rank 0 gathers and tells, over a bootstrap that is a table: when it does not fit, and when the exchange ends.

#include "tools/fabring/doctor/net_gathering.hpp"

#include <gmock/gmock.h>

#include <map>

#include "tools/fabring/doctor/net_calls.hpp"
#include "tools/fabring/doctor/report.hpp"

namespace fabring::tools {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;

class Table final : public Bootstrap {
 public:
  Status put(const std::string& key, const std::string& value) override {
    values_.emplace(key, value);
    return {};
  }
  Result<std::string> get(const std::string& key, steady_clock::time_point) override {
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    return Status(ErrorCode::timeout, "nobody has published " + key);
  }
  std::uint64_t job_nonce() const override { return 1; }
  std::string local_address() const override { return "127.0.0.1"; }
  bool all_on_this_host() const override { return false; }
  std::uint64_t strangers() const override { return 0; }

 private:
  std::map<std::string, std::string> values_;
};

NetFacts facts_of(Rank rank, int doors) {
  NetFacts facts;
  facts.rank = rank;
  facts.host = "host" + std::to_string(rank);
  facts.fingerprint = "boot/" + facts.host;
  for (int i = 0; i < doors; ++i)
    facts.doors.push_back({i == 0 ? "control and data" : "data", "eth" + std::to_string(i),
                           "10.0." + std::to_string(i) + ".0/24",
                           "10.0." + std::to_string(i) + "." + std::to_string(rank + 1) + ":4000", "", 1500});
  return facts;
}

rails::Leaves leaves_by_first(const rails::Card& card, const std::string&) {
  return card.name == "eth0" ? rails::Leaves::by_card : rails::Leaves::by_another;
}

TEST(NetGathering, MoreDoorsThanCanBeToldWereNotCheckedAndNobodyIsLost) {
  Table table;
  BlobExchange ranks(table), exchange(table, 2);
  for (Rank rank = 0; rank < 8; ++rank)
    ASSERT_TRUE(ranks.put("net/facts/" + std::to_string(rank), facts_of(rank, 16).encode()).ok());
  NetPicture picture;
  const Status gathered = gather_facts(exchange, 8, picture, steady_clock::now());
  ASSERT_TRUE(gathered.ok()) << gathered.to_string();
  const auto doors = ranks.get("net/doors", steady_clock::now());
  ASSERT_TRUE(doors.has_value());
  EXPECT_TRUE(calls_of(*doors, facts_of(1, 16), 8, leaves_by_first).plain.empty());
  for (Rank rank = 0; rank < 8; ++rank)
    ASSERT_TRUE(ranks.put("net/found/" + std::to_string(rank), encode(std::vector<Probe>())).ok());
  ASSERT_TRUE(gather_probes(exchange, picture, steady_clock::now()).ok());
  Report report;
  report.findings = judge(picture);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].id, "net.too_many");
  EXPECT_THAT(report.findings[0].what, HasSubstr("8 ranks with 128 ports"));
  EXPECT_EQ(exit_code(report, true), 3);
}

TEST(NetGathering, WhatFitsIsToldToAll) {
  Table table;
  BlobExchange exchange(table);
  for (Rank rank = 0; rank < 8; ++rank)
    ASSERT_TRUE(exchange.put("net/facts/" + std::to_string(rank), facts_of(rank, 16).encode()).ok());
  NetPicture picture;
  ASSERT_TRUE(gather_facts(exchange, 8, picture, steady_clock::now()).ok());
  const auto doors = exchange.get("net/doors", steady_clock::now());
  ASSERT_TRUE(doors.has_value());
  EXPECT_EQ(calls_of(*doors, facts_of(1, 16), 8, leaves_by_first).plain.size(), 7u);
}

TEST(NetGathering, OnlyARankThatIsLostIsCalledSo) {
  ErrorContext context;
  context.rank = 3;
  EXPECT_EQ(ended_early(Status(ErrorCode::peer_lost, "rank 3 died", context)).severity, Severity::critical);
  Report report;
  report.findings = {ended_early(Status(ErrorCode::invalid_argument, "too many bytes"))};
  EXPECT_EQ(exit_code(report, false), 3);
}

}  // namespace
}  // namespace fabring::tools
