#include "tools/fabring/plan/proof_json.hpp"

#include <nlohmann/json.hpp>

#include "collectives/algorithms.hpp"
#include "collectives/ownership.hpp"

namespace fabring::tools {

std::string proof_to_json(std::span<const Plan> plans, const Result<Proof>& proof, std::size_t bytes_counted_for,
                          DataType type) {
  using nlohmann::ordered_json;
  const Plan& first = plans.front();
  const bool too_much = !proof && proof.error().code() == ErrorCode::unsupported;
  ordered_json json{{"collective", name(first.collective)},
                    {"algorithm", first.algorithm},
                    {"ranks", plans.size()},
                    {"proved", too_much ? ordered_json() : ordered_json(proof.has_value())},
                    {"error", proof ? ordered_json() : ordered_json(proof.error().message())}};
  if (proof) {
    const bool reduced = reduces(first.collective);
    json["steps"] = proof->report.steps;
    json["messages"] = proof->report.messages;
    json["rounds"] = proof->report.critical_path;
    json["counts"] = proof->counts;
    json["at_every_count"] = proof->at_every_count;
    json["in_rank_order"] = reduced ? ordered_json(proof->order.in_rank_order) : ordered_json();
    json["in_one_step"] = reduced ? ordered_json(proof->order.in_one_step) : ordered_json();
  }
  json["count"] = bytes_counted_for;
  json["type"] = name(type);
  ordered_json& sent = json["sent"] = ordered_json::array();
  for (const Plan& plan : plans) {
    const auto to = bytes_sent_to(plan, bytes_counted_for, size_of(type));
    for (std::size_t peer = 0; peer < to.size(); ++peer)
      if (to[peer] != 0) sent.push_back({plan.rank, peer, to[peer]});
  }
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace fabring::tools
