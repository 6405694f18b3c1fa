#include "runtime/startup/identity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/startup/machine_file.hpp"

namespace fabring {
namespace {
constexpr std::size_t most_text = 256;
constexpr std::size_t most_reason = 2048;
constexpr std::size_t most_list = 8192;  // of rules, or of processors: cut short they would mean something else
constexpr std::size_t most_transports = 8;
constexpr std::size_t most_quotas = 8;  // of groups in each other
}  // namespace

void Identity::cannot_use(const std::string& transport, std::string_view why) {
  std::erase(usable, transport);
  unusable += fmt::format("{}{}: {}", unusable.empty() ? "" : "; ", transport, why);
}

std::string Identity::encode() const {
  WireWriter out;
  out.text(version, most_text).text(host, most_text).number(pid).text(fingerprint, most_text);
  out.text(host_id, most_text).text(transports, most_text);
  out.number(static_cast<std::uint8_t>(std::min(usable.size(), most_transports)));
  for (std::size_t i = 0; i < std::min(usable.size(), most_transports); ++i) out.text(usable[i], most_text);
  out.text(unusable, most_reason).text(algorithm, most_list).number(segment_bytes).number(depth).number(scratch_bytes);
  out.number(static_cast<std::uint8_t>(reproducible)).text(machine, most_text).number(link_megabits).number(cores);
  out.number(static_cast<std::uint8_t>(networks_probed)).text(cpus, most_list).number(rails);
  out.number(static_cast<std::uint8_t>(gpus)).number(lent_bytes).number(static_cast<std::uint8_t>(lends));
  out.text(described_machine, most_machine_bytes).text(provider, most_text).text(wire_type, most_text);
  out.text(wanted_provider, most_text).number(static_cast<std::uint8_t>(apart));
  out.number(static_cast<std::uint8_t>(paced_loopback));
  out.number(static_cast<std::uint8_t>(std::min(quotas.size(), most_quotas)));
  for (std::size_t i = 0; i < std::min(quotas.size(), most_quotas); ++i)
    out.text(quotas[i].group, most_text).number(quotas[i].millicpus);
  return out.take();
}

Result<Identity> Identity::decode(std::string_view bytes) {
  WireReader in(bytes);
  Identity identity;
  identity.version = in.text(most_text);
  identity.host = in.text(most_text);
  identity.pid = in.number<std::uint32_t>();
  identity.fingerprint = in.text(most_text);
  identity.host_id = in.text(most_text);
  identity.transports = in.text(most_text);
  const auto count = in.number<std::uint8_t>();
  if (count > most_transports) return Status(ErrorCode::mismatch, "a rank sent an identity that cannot be read");
  for (int i = 0; i < count; ++i) identity.usable.emplace_back(in.text(most_text));
  identity.unusable = in.text(most_reason);
  identity.algorithm = in.text(most_list);
  identity.segment_bytes = in.number<std::uint64_t>();
  identity.depth = in.number<std::uint32_t>();
  identity.scratch_bytes = in.number<std::uint64_t>();
  identity.reproducible = in.number<std::uint8_t>() != 0;
  identity.machine = in.text(most_text);
  identity.link_megabits = in.number<std::uint32_t>();
  identity.cores = in.number<std::uint32_t>();
  identity.networks_probed = in.number<std::uint8_t>() != 0;
  identity.cpus = in.text(most_list);
  identity.rails = in.number<std::uint8_t>();
  identity.gpus = in.number<std::uint8_t>() != 0;
  identity.lent_bytes = in.number<std::uint64_t>();
  identity.lends = in.number<std::uint8_t>() != 0;
  identity.described_machine = in.text(most_machine_bytes);
  identity.provider = in.text(most_text);
  identity.wire_type = in.text(most_text);
  identity.wanted_provider = in.text(most_text);
  identity.apart = in.number<std::uint8_t>() != 0;
  identity.paced_loopback = in.number<std::uint8_t>() != 0;
  const auto quotas = in.number<std::uint8_t>();
  if (quotas > most_quotas) return Status(ErrorCode::mismatch, "a rank sent an identity that cannot be read");
  for (int i = 0; i < quotas; ++i) {
    CpuQuota& quota = identity.quotas.emplace_back();
    quota.group = in.text(most_text);
    quota.millicpus = std::max(in.number<std::uint32_t>(), 1u);
  }
  if (!in.complete())
    return Status(ErrorCode::mismatch, "a rank sent an identity that cannot be read; it runs another build of Fabring");
  return identity;
}

Status compare(const std::vector<Identity>& ranks) {
  const auto differ = [&](std::size_t rank, const char* what, const auto& theirs, const auto& ours) {
    return Status(ErrorCode::mismatch,
                  fmt::format("{} differs: '{}' on rank {} (host {}), '{}' on rank 0 (host {}); {}", what, theirs, rank,
                              ranks[rank].host, ours, ranks[0].host,
                              std::string_view(what).starts_with("FABRING_") ? "set it alike on all ranks"
                                                                             : "install the same one on all hosts"));
  };
  const Identity& first = ranks[0];
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const Identity& other = ranks[rank];
    if (other.version != first.version) return differ(rank, "the version of Fabring", other.version, first.version);
    if (other.transports != first.transports)
      return differ(rank, "FABRING_TRANSPORT", other.transports, first.transports);
    if (other.algorithm != first.algorithm) return differ(rank, "FABRING_ALGORITHM", other.algorithm, first.algorithm);
    if (other.segment_bytes != first.segment_bytes)
      return differ(rank, "FABRING_SEGMENT_BYTES", other.segment_bytes, first.segment_bytes);
    if (other.reproducible != first.reproducible)
      return differ(rank, "FABRING_REPRODUCIBLE", other.reproducible, first.reproducible);
    if (other.wire_type != first.wire_type) return differ(rank, "FABRING_WIRE_TYPE", other.wire_type, first.wire_type);
    if (other.depth != first.depth) return differ(rank, "FABRING_DEPTH", other.depth, first.depth);
  }
  return {};
}

bool on_one_host(const std::vector<Identity>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const Identity& rank) { return rank.fingerprint == ranks[0].fingerprint && !rank.apart; });
}

}  // namespace fabring
