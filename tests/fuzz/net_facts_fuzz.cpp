// `fabring doctor net`: the facts and the probes of each rank, one behind the other, each behind its length; then what
// rank 0 makes of them all, and whom a rank is to call.

#include "tools/fabring/doctor/net_facts.hpp"

#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/round_trip.hpp"
#include "tools/fabring/doctor/net_calls.hpp"
#include "tools/fabring/doctor/net_verdict.hpp"

namespace fabring::fuzz::net_facts {
namespace {

constexpr int world = 4;

tools::NetFacts facts_of(Rank rank) {
  const std::string number = std::to_string(rank + 1);
  tools::NetFacts facts;
  facts.rank = rank;
  facts.host = "host" + number;
  facts.fingerprint = "boot/" + number;
  facts.version = "0.1.0";
  facts.doors = {{"control and data", "eth0", "10.0.0.0/24", "10.0.0." + number + ":4000", "", 1500},
                 {"data", "eth1", "10.0.1.0/24", "10.0.1." + number + ":4001", "", 9000},
                 {"data over libfabric", "eth0", "10.0.0.0/24", "10.0.0." + number + ":4002", "fi_sockaddr_in", 1500}};
  facts.settings = {"FABRING_TRANSPORT=tcp"};
  facts.interfaces = {"eth0 1500 10000", "eth1 9000 25000"};
  facts.networks = {"fabric", "tcp"};
  facts.provider = "tcp";
  return facts;
}

std::vector<tools::Probe> probes_of(Rank rank, tools::Reach reach) {
  std::vector<tools::Probe> probes;
  for (Rank to = 0; to < world; ++to)
    if (to != rank) probes.push_back({to, 0, reach, 100, 2000, 900, 1500, 1448, "words"});
  return probes;
}

void judge_all(const tools::NetPicture& picture) {
  for (const tools::Finding& finding : tools::judge(picture)) {
    require(!finding.id.empty() && !finding.what.empty(), "a finding says what");
    require(fit_to_be_shown(finding.what) && fit_to_be_shown(finding.where), "in words that are fit to be shown");
  }
}

}  // namespace

void run(std::string_view input) {
  tools::NetPicture picture;
  Pieces pieces(input);
  const auto read_probes = [](std::string_view bytes) { return tools::decode_probes(bytes, world); };
  for (Rank rank = 0; rank < world; ++rank) {
    const std::string_view facts = pieces.text(), probes = pieces.text();
    settled_value<tools::NetFacts>(facts, tools::NetFacts::decode);
    settled(probes, read_probes);
    picture.ranks.push_back(tools::NetFacts::decode(facts));
    picture.probes.push_back(read_probes(probes));
  }
  judge_all(picture);
  const auto leaves = [](const rails::Card& card, const std::string&) {
    return card.name == "eth0" ? rails::Leaves::by_card : rails::Leaves::by_another;
  };
  for (const std::string& doors : {tools::encode_doors(picture.ranks), std::string(input)}) {
    const auto calls = tools::calls_of(doors, facts_of(0), world, leaves);
    for (const auto& call : calls.plain) require(call.rank > 0 && call.rank < world, "calls are at other ranks");
    for (const auto& call : calls.fabric) require(call.rank > 0 && call.rank < world, "likewise over libfabric");
  }
}

Seeds seeds() {
  const auto all_say = [](tools::Reach reach) {
    std::string all;
    for (Rank rank = 0; rank < world; ++rank)
      all += piece(facts_of(rank).encode()) + piece(encode(probes_of(rank, reach)));
    return all;
  };
  return {all_say(tools::Reach::fine), all_say(tools::Reach::no_answer), all_say(tools::Reach::large_stalls),
          all_say(tools::Reach::unrouted)};
}

}  // namespace fabring::fuzz::net_facts
