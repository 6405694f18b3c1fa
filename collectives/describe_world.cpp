#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"

namespace fabring {
namespace {

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, numbers to the right.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += std::string(widths[i] - row[i].size() + 2, ' ') + row[i];
    text += "\n";
  }
  return text;
}

/// A pair of ranks or of nodes, from -> to.
using Link = std::pair<int, int>;
using LinkBytes = std::map<Link, std::uint64_t>;

constexpr std::size_t most_links_listed = 64;

std::string links_text(const std::string& what, const LinkBytes& links) {
  if (links.empty()) return {};
  if (links.size() <= most_links_listed) {
    std::vector<Row> rows{{what, "bytes"}};
    for (const auto& [link, bytes] : links) {
      rows.push_back({std::to_string(link.first) + " -> " + std::to_string(link.second), std::to_string(bytes)});
    }
    return "\n" + table(rows);
  }
  std::uint64_t total = 0;
  std::uint64_t most = 0;
  for (const auto& [link, bytes] : links) {
    total += bytes;
    most = std::max(most, bytes);
  }
  return "\n  " + what + ": " + std::to_string(links.size()) + " links, " + std::to_string(total) + " bytes, at most " +
         std::to_string(most) + " on one\n";
}

}  // namespace

std::string describe_world(std::span<const Plan> plans, std::span<const int> node_of, std::size_t count,
                           std::size_t element_bytes) {
  // finish is no matter here, so the world is bound as for avg, which has it.
  const auto world = check::bind_world(plans, count, ReduceOp::avg);
  if (!world) return world.error().message() + "\n";
  const auto partners = check::match_messages(*world);
  if (!partners) return partners.error().message() + "\n";
  const auto order = check::order_steps(*world, *partners);

  const bool know_nodes = node_of.size() == plans.size();
  LinkBytes ranks;
  LinkBytes nodes;
  std::vector<Row> rows{{"rank", "steps", "messages", "bytes", "between nodes", "scratch"}};
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    const std::vector<std::uint64_t> sent = bytes_sent_to(plan, count, element_bytes);
    std::uint64_t bytes = 0;
    std::uint64_t outside = 0;
    for (std::size_t peer = 0; peer < sent.size(); ++peer) {
      if (sent[peer] == 0) continue;
      bytes += sent[peer];
      ranks[{static_cast<int>(rank), static_cast<int>(peer)}] += sent[peer];
      if (!know_nodes || node_of[rank] == node_of[peer]) continue;
      outside += sent[peer];
      nodes[{node_of[rank], node_of[peer]}] += sent[peer];
    }
    std::uint64_t scratch = 0;
    for (const std::size_t length : world->scratch[rank]) scratch += std::uint64_t{length} * element_bytes;
    const auto messages = std::count_if(plan.steps.begin(), plan.steps.end(), check::sends);
    rows.push_back({std::to_string(rank), std::to_string(plan.steps.size()), std::to_string(messages),
                    std::to_string(bytes), know_nodes ? std::to_string(outside) : "?", std::to_string(scratch)});
  }

  std::string text = plans[0].algorithm + " over " + counted(plans.size(), "rank");
  if (plans[0].collective != Collective::barrier)
    text += ", " + counted(count, "element") + " of " + counted(element_bytes, "byte");
  text += plans[0].blocks == 0 ? ": " : " in each block: ";
  text += order ? counted(order->messages, "message") + " in " + counted(order->rounds, "round") + "\n"
                : order.error().message() + "\n";
  return text + table(rows) + links_text("ranks", ranks) + links_text("nodes", nodes);
}

}  // namespace fabring
