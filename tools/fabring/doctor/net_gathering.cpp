#include "tools/fabring/doctor/net_gathering.hpp"

#include <fmt/format.h>

#include "tools/fabring/doctor/net_calls.hpp"

namespace fabring::tools {
namespace {

// `take(rank, blob)` for every rank that told. One that died meanwhile ends the exchange for all; what is known by then
// is still worth a report.
template <class Take>
Status gather(BlobExchange& exchange, const char* what, std::size_t ranks,
              std::chrono::steady_clock::time_point deadline, Take take) {
  Status lost;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto blob = exchange.get(fmt::format("net/{}/{}", what, rank), deadline);
    if (blob) take(rank, *blob);
    if (!blob && blob.error().code() != ErrorCode::timeout && lost.ok()) lost = blob.error();
  }
  return lost;
}

}  // namespace

Status gather_facts(BlobExchange& exchange, int world, NetPicture& picture,
                    std::chrono::steady_clock::time_point deadline) {
  picture.ranks.resize(static_cast<std::size_t>(world));
  picture.probes.resize(picture.ranks.size());
  FABRING_TRY(gather(exchange, "facts", picture.ranks.size(), deadline,
                     [&](std::size_t rank, const std::string& blob) { picture.ranks[rank] = NetFacts::decode(blob); }));
  const std::string doors = encode_doors(picture.ranks);
  if (exchange.fits(doors)) return exchange.put("net/doors", doors);
  // Nobody calls anybody then; in what the hosts differ is known all the same.
  picture.bytes_of_doors_untold = doors.size();
  return exchange.put("net/doors", encode_doors({}));
}

Status gather_probes(BlobExchange& exchange, NetPicture& picture, std::chrono::steady_clock::time_point deadline) {
  const int world = static_cast<int>(picture.probes.size());
  return gather(exchange, "found", picture.probes.size(), deadline,
                [&](std::size_t rank, const std::string& blob) { picture.probes[rank] = decode_probes(blob, world); });
}

Finding ended_early(const Status& status) {
  const std::string where = status.context().rank < 0 ? std::string() : fmt::format("rank {}", status.context().rank);
  if (status.code() != ErrorCode::peer_lost)
    return {"net.untold",
            Severity::not_checked,
            "it ended early: " + status.message(),
            "",
            "look at the output of the ranks",
            where};
  return {"net.lost",
          Severity::critical,
          status.message(),
          "a rank that dies while the network is checked dies in a job",
          "look at that rank's output and at its host",
          where};
}

}  // namespace fabring::tools
