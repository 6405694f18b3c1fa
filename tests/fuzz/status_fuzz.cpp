// `fabring status`: the name of a rank's socket, the request, and the answer. The first byte says which.

#include "runtime/status/status_wire.hpp"
#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::status {
namespace {
std::string written(const std::vector<RankNews>& news) { return encode_status_answer(news); }
}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  if (input[0] == 'n') {
    if (const auto name = parse_status_name(bytes)) {
      require(name->rank >= 0 && name->rank < (1 << 20), "a rank is in its bounds");
      require(name->job.size() == 16, "a job has its digits");
    }
  } else if (input[0] == 'q') {
    if (const auto everybody = decode_status_request(bytes))
      require(encode_status_request(*everybody) == bytes, "what is accepted is what would be written");
  } else if (const auto news = decode_status_answer(bytes)) {
    for (const RankNews& one : *news) require(fit_to_be_shown(one.host), "a host's name is fit to be shown");
    const auto again = decode_status_answer(written(*news));
    require(again && written(*again) == written(*news), "news stay what they are");
  }
}

Seeds seeds() {
  const RankNews answered{1, "host-a", 4711, RankNews::Presence::answered, 20, "state"};
  const RankNews left{2, "host-b", 0, RankNews::Presence::left, -1, ""};
  return {'n' + status_name(42, 3), 'q' + encode_status_request(true), 'a' + encode_status_answer({answered, left}),
          'a' + encode_status_answer({})};
}

}  // namespace fabring::fuzz::status
