// What the kernel's files say, and what other ranks say of theirs: lists of processors, quotas, places on the bus,
// links. Each reader looks at the same input.

#include "tests/fuzz/targets.hpp"
#include "topology/card_facts.hpp"
#include "topology/cpu_quota.hpp"
#include "topology/cpus.hpp"
#include "topology/pci.hpp"

namespace fabring::fuzz::system_files {

void run(std::string_view input) {
  const auto cpus = parse_cpu_list(input);
  require(cpus.size() <= std::size_t{1} << 20, "a list is not longer than there are processors anywhere");
  if (cpus.size() < 10'000) require(parse_cpu_list(show_cpu_list(cpus)) == cpus, "a list stays what it is");
  if (const auto cpu_max = parse_cpu_max(input)) require(*cpu_max > 0, "a quota is more than nothing");
  (void)cpu_quotas(input, "/nonexistent");
  if (const auto address = parse_pci_address(input)) {
    const auto again = parse_pci_address(text(*address));
    require(again && *again == *address, "a place stays what it is");
  }
  const PciLink link = parse_recorded_link(std::string(input));
  require(link.lanes_now >= 0 && link.lanes_now <= 64 && link.gigatransfers_best >= 0, "a link is possible");
  (void)recorded_link(link);
  require(parse_link_speed(input) >= 0 && parse_link_speed(input) < 1000, "so is a speed");
  require(parse_port_rate(input) < 100'000'000, "and a rate");
}

Seeds seeds() {
  return {"0-3,8",
          "0-1048575",
          "200000 100000",
          "max 100000",
          "0000:a1:00.0",
          "a1:00.0",
          "8 x16 of 16 x16",
          "16.0 GT/s PCIe",
          "100 Gb/sec (4X EDR)",
          "0::/user.slice\n4:cpu,cpuacct:/a/b\n",
          "7-3",
          "1,"};
}

}  // namespace fabring::fuzz::system_files
