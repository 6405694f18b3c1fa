// Hosts, as Slurm, --hosts and hostfiles name them. The first byte says which.

#include "runtime/bootstrap/launch_environment.hpp"
#include "tests/fuzz/targets.hpp"
#include "tools/fabring/launch/host_slots.hpp"

namespace fabring::fuzz::host_lists {
namespace {

void sound(const Result<std::vector<tools::HostSlots>>& hosts) {
  if (!hosts) return require(hosts.error().code() == ErrorCode::invalid_argument, "what is refused says why");
  require(!hosts->empty(), "there is a host");
  int slots = 0;
  std::string text;
  for (const tools::HostSlots& host : *hosts) {
    require(!host.name.empty() && host.name.front() != '-', "a name is no option of ssh's");
    require(host.name.find_first_of(" \t\n;|&$`'\"<>") == std::string::npos, "nor anything to a shell");
    require(host.slots > 0, "a host has slots");
    slots += host.slots;
    const std::size_t at = host.name.find('@') + 1;  // of user@address; 0: no user
    const bool v6 = host.name.find(':') != std::string::npos;
    text += (text.empty() ? "" : ",") + (v6 ? host.name.substr(0, at) + "[" + host.name.substr(at) + "]" : host.name) +
            ":" + std::to_string(host.slots);
  }
  const auto again = tools::parse_hosts(text);
  require(again && *again == *hosts, "hosts stay what they are");
  const auto shares = tools::place_ranks(*hosts, 0);
  require(shares && !shares->empty(), "every slot can be used");
  require(shares->back().first + shares->back().count == slots, "and is, once");
  require(!tools::place_ranks(*hosts, slots + 1), "and no more");
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  if (input[0] == 'h') return sound(tools::parse_hosts(text));
  if (input[0] == 'f') return sound(tools::parse_hostfile(text, "hosts"));
  constexpr std::size_t limit = 64;
  const auto names = expand_host_list(text, limit);
  if (!names) return require(names.error().code() == ErrorCode::invalid_argument, "what is refused says why");
  require(!names->empty() && names->size() <= limit, "there is a name, and not more than asked for");
  const auto first = expand_host_list(text, 1);
  require(first && first->size() == 1 && first->front() == names->front(), "the first is the first");
}

Seeds seeds() {
  return {"ha:4,user@b,[fd00::1]:2,c%eth0", "fa slots=4 # ours\nb:2\n\n# none\nc max_slots=3\n", "sn[01-03,7],x[1-2]y",
          "sa,b,c", "sr[0-1]c[000-003]"};
}

}  // namespace fabring::fuzz::host_lists
