// The clock: set by others, and fast to read.

#include <fmt/format.h>

#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tools {

Findings check_clock(const HostFacts& facts) {
  Findings found;
  if (!facts.clock)
    found.push_back(unchecked("clock.sync", "whether the clock is synchronised: the kernel does not say here"));
  else if (!facts.clock->synchronised)
    found.push_back({"clock.sync",
                     Severity::warning,
                     "the clock is not synchronised",
                     "logs of several hosts cannot be put in order, and certificates or tokens may look expired",
                     "start chrony or systemd-timesyncd (inside a container this is the host's business)",
                     {}});
  else
    found.push_back(fine("clock.sync", fmt::format("synchronised, within {:.3g} ms", facts.clock->error_s * 1000)));
  if (const auto source = facts.files.line("sys/devices/system/clocksource/clocksource0/current_clocksource")) {
    if (*source == "hpet" || *source == "acpi_pm" || *source == "jiffies" || *source == "refined-jiffies")
      found.push_back(
          {"clock.source",
           Severity::warning,
           "the kernel reads time from " + *source,
           "reading the clock takes a microsecond or more, and is done for every message",
           "why tsc was given up is in dmesg | grep -i tsc; boot with tsc=reliable if that is known to be false",
           {}});
    else
      found.push_back(fine("clock.source", "time is read from " + *source));
  }
  return found;
}

}  // namespace fabring::tools
