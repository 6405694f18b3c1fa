// What a rank tells all others at start-up, and what the others make of it: beside an honest rank's.

#include "runtime/startup/identity.hpp"

#include <algorithm>

#include "runtime/startup/agreed_lengths.hpp"
#include "runtime/startup/common_network.hpp"
#include "runtime/startup/core_share.hpp"
#include "runtime/startup/home_core.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "tests/fuzz/round_trip.hpp"
#include "topology/cpus.hpp"

namespace fabring::fuzz::identity {
namespace {

Identity honest() {
  Identity one;
  one.version = "0.1.0";
  one.host = "host-a";
  one.pid = 4711;
  one.fingerprint = "boot/4026531840";
  one.transports = "auto";
  one.usable = {"shm", "tcp"};
  one.networks_probed = true;
  one.algorithm = "auto";
  one.machine = "auto";
  one.link_megabits = 10'000;
  one.cores = 4;
  one.cpus = "4-7";
  return one;
}

}  // namespace

void run(std::string_view input) {
  settled_value<Identity>(input, Identity::decode);
  const auto read = Identity::decode(input);
  if (!read) return require(read.error().code() == ErrorCode::mismatch, "what is refused is a mismatch");
  for (const std::vector<Identity>& ranks : {std::vector{honest(), *read}, std::vector{*read, honest()}}) {
    (void)compare(ranks);
    const int beside = shared_processors(ranks, 1).ranks;
    require(beside == 1 || beside == 2, "a rank is beside itself and perhaps the other");
    const SharedCores least = least_share(ranks, 1);
    require(least.ranks == 1 || least.ranks == 2, "of a quota too");
    (void)least.describe();
    const int home = home_core(ranks, 1);
    const std::vector<int> allowed = parse_cpu_list(ranks[1].cpus);
    require(home == -1 || std::ranges::find(allowed, home) != allowed.end(), "a rank waits where it may run");
    (void)all_lend(ranks, {0, 0});
    (void)unasked_limit_of(ranks, {0, 0});
    for (const auto& cards : {std::optional<HostCards>(), std::optional(HostCards{"efa", 4, 100'000, true})})
      for (const Reach reach : {Reach::network, Reach::shared_memory, Reach::gpu_memory})
        for (const int second : {0, 1})
          if (const auto choice = choose_machine(ranks, reach, {.node_of = {0, second}, .cards = cards}))
            require(check_machine(choice->machine).ok(), "a machine that is taken is sound");
    (void)segment_of(ranks);
    (void)long_segment_of(ranks);
    (void)lent_segment_of(ranks, {0, 0});
    if (const auto network = common_network(ranks); !network)
      require(network.error().code() == ErrorCode::unavailable, "no network is an error");
  }
}

Seeds seeds() {
  Identity described = honest();
  described.described_machine = R"({"base": "10g", "name": "ours", "cores": 8})";
  described.cpus = "0-3,9";
  described.fingerprint = "boot/4026531999";
  Identity cards = honest();
  cards.gpus = true;
  cards.rails = 8;
  cards.lent_bytes = 8 << 20;
  cards.lends = true;
  cards.unusable = "fabric: libfabric is not there";
  cards.quotas = {{"29.4711", 1500}, {"29.1", 6000}};
  return {honest().encode(), described.encode(), cards.encode()};
}

}  // namespace fabring::fuzz::identity
