// What ranks must do alike, of made-up jobs: every rank gets the same, and what it gets fits all of them.

#include "runtime/startup/agreement.hpp"

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "collectives/tiling.hpp"
#include "runtime/startup/agreed_lengths.hpp"
#include "runtime/startup/data_path.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t mib = std::size_t{1} << 20;

auto all_of(const Agreement& one) {
  const LandingRules& landings = one.parcels.landings;
  return std::tuple(one.segment_bytes, one.lent_segment_bytes, one.long_segment_bytes, one.unasked_limit,
                    one.least_scratch_bytes, one.depth_for_cards, one.some_have_gpus, one.shares_memory,
                    one.through_loopback, one.parcels.longest, one.parcels.slots, landings.count, landings.bytes,
                    one.reach);
}

struct Job {
  std::vector<Identity> ranks;
  CommonPath path;
};

/// By rank: its host. Ranks of one host share memory, and it is the only way where there is but one.
Job job(const std::vector<int>& hosts, bool shared_memory) {
  Job made;
  made.path.node_of = hosts;
  made.path.shared_memory = shared_memory;
  for (const int host : hosts) {
    Identity rank;
    rank.fingerprint = "boot " + std::to_string(host) + "/net:1";
    made.ranks.push_back(std::move(rank));
  }
  return made;
}

void give_gpus(Job& job, bool begun) {
  for (Identity& rank : job.ranks) {
    rank.gpus = true;
    rank.lends = begun;
    rank.lent_bytes = begun ? 8 * mib : mib;
  }
}

/// Asks as each rank would, whose path has things of its own besides.
Agreement agreed_by_all(const Job& job) {
  const Agreement first = agree(job.ranks, job.path);
  for (std::size_t self = 0; self < job.ranks.size(); ++self) {
    DataPath own;
    static_cast<CommonPath&>(own) = job.path;
    own.card = "card" + std::to_string(self);
    own.network = self % 2 == 0 ? "" : "tcp";
    own.report.assign(self, "a line");
    EXPECT_EQ(all_of(agree(job.ranks, own)), all_of(first)) << "rank " << self;
  }
  return first;
}

TEST(Agree, on_the_scratch_of_the_rank_that_has_least) {
  Job two = job({0, 1}, false);
  EXPECT_EQ(agreed_by_all(two).least_scratch_bytes, 32 * mib);
  EXPECT_EQ(agreed_by_all(two).parcels.slots, parcels_over_network(2, 32 * mib).slots);
  EXPECT_NE(agreed_by_all(two).parcels.landings.count, 0u);
  for (const std::size_t little : {0, 1}) {
    Job mixed = two;
    mixed.ranks[little].scratch_bytes = mib;
    mixed.ranks[1 - little].scratch_bytes = 256 * mib;
    const Agreement agreed = agreed_by_all(mixed);
    EXPECT_EQ(agreed.least_scratch_bytes, mib);
    EXPECT_EQ(agreed.segment_bytes, segment_of(mixed.ranks));
    EXPECT_EQ(agreed.long_segment_bytes, mib / 16);
    EXPECT_EQ(agreed.parcels.longest, parcels_over_network(2, mib).longest);
    EXPECT_EQ(agreed.parcels.landings.count, 0u) << "they would take all of it";
  }
}

TEST(Agree, on_landings_only_where_no_rank_has_a_gpu_or_takes_several_cards) {
  const Job hosts = job({0, 1}, false);
  EXPECT_EQ(agreed_by_all(hosts).parcels.landings.count, landings_over_network(2, false, 32 * mib).count);
  for (const std::size_t one : {0, 1}) {
    Job gpu = hosts;
    gpu.ranks[one].gpus = true;
    EXPECT_TRUE(agreed_by_all(gpu).some_have_gpus) << one;
    EXPECT_EQ(agreed_by_all(gpu).parcels.landings.count, 0u) << one;
    Job rails = hosts;
    rails.ranks[one].rails = 4;
    EXPECT_EQ(agreed_by_all(rails).parcels.landings.count, 0u) << one;
  }
  Job efa = hosts;
  efa.path.cards = HostCards{.provider = "efa"};
  efa.path.depth = 4;
  EXPECT_EQ(agreed_by_all(efa).parcels.landings.count, 0u);
  EXPECT_EQ(agreed_by_all(efa).depth_for_cards, 4u);

  Job loopback = job({0, 0}, false);
  loopback.ranks[1].rails = 2;  // what stays on the host takes no card
  EXPECT_TRUE(agreed_by_all(loopback).through_loopback);
  EXPECT_EQ(agreed_by_all(loopback).parcels.landings.count, landings_over_network(2, true, 32 * mib).count);
}

TEST(Agree, on_how_they_reach_each_other) {
  Job one_host = job({0, 0, 0}, true);
  EXPECT_EQ(agreed_by_all(one_host).reach, Reach::shared_memory);
  EXPECT_TRUE(agreed_by_all(one_host).shares_memory);
  EXPECT_FALSE(agreed_by_all(one_host).through_loopback);
  EXPECT_EQ(agreed_by_all(one_host).parcels.longest, ParcelRules().longest);
  EXPECT_EQ(agreed_by_all(job({0, 0, 1}, true)).reach, Reach::shared_memory) << "those that are alone on a host too";
  Job sockets = job({0, 1}, false);
  EXPECT_EQ(agreed_by_all(sockets).reach, Reach::network);
  sockets.path.libfabric = true;
  EXPECT_EQ(agreed_by_all(sockets).reach, Reach::libfabric);
  Job threads = job({0, 0}, false);
  threads.path.one_process = true;
  EXPECT_EQ(agreed_by_all(threads).reach, Reach::shared_memory);
}

TEST(Agree, on_lending_only_where_all_ranks_of_one_host_do) {
  Job host = job({0, 0, 0}, true);
  give_gpus(host, true);
  EXPECT_EQ(agreed_by_all(host).reach, Reach::gpu_memory);
  EXPECT_EQ(agreed_by_all(host).lent_segment_bytes, 8 * mib);
  EXPECT_EQ(agreed_by_all(host).unasked_limit, unasked_between_gpus);
  for (std::size_t late = 0; late < host.ranks.size(); ++late) {
    Job mixed = host;
    mixed.ranks[late].lends = false;
    mixed.ranks[late].lent_bytes = mib;
    EXPECT_EQ(agreed_by_all(mixed).reach, Reach::shared_memory) << late;
    EXPECT_EQ(agreed_by_all(mixed).lent_segment_bytes, mib) << late;
    EXPECT_EQ(agreed_by_all(mixed).unasked_limit, 0u) << late;
  }
  Job hosts = job({0, 0, 1}, true);
  give_gpus(hosts, true);
  EXPECT_EQ(agreed_by_all(hosts).reach, Reach::shared_memory);
  EXPECT_EQ(agreed_by_all(hosts).lent_segment_bytes, 0u);
  Job apart = job({0, 0}, false);  // nothing is lent through a network
  give_gpus(apart, true);
  EXPECT_EQ(agreed_by_all(apart).reach, Reach::network);
  EXPECT_EQ(agreed_by_all(apart).lent_segment_bytes, 0u);
  EXPECT_EQ(agreed_by_all(apart).unasked_limit, 0u);
}

TEST(Agree, is_described_where_it_is_not_as_usual) {
  EXPECT_THAT(describe(agree(job({0, 1}, false).ranks, {}), false), IsEmpty());
  Job host = job({0, 0}, true);
  give_gpus(host, true);
  const auto begun = describe(agreed_by_all(host), true);
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_THAT(begun[0], HasSubstr("up to 8192 KiB"));
  EXPECT_THAT(begun[1], HasSubstr("are asked for"));
  give_gpus(host, false);
  const auto later = describe(agreed_by_all(host), false);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_THAT(later[0], HasSubstr("this rank had not begun to use one"));
}

}  // namespace
}  // namespace fabring
