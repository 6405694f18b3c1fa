#include "transports/fabric/fork_safety.hpp"

#include <strings.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fabring::fabric {
namespace {

bool has_efa_card() {
  std::error_code error;
  for (std::filesystem::directory_iterator at(infiniband_folder, error), end; !error && at != end;
       at.increment(error)) {
    std::ifstream file(at->path() / "device" / "vendor");
    std::string vendor;
    if (file >> vendor && vendor == "0x1d0f") return true;  // Amazon
  }
  return false;
}

// libfabric's words for no; anything else may be a yes.
bool says_no(const char* value) {
  for (const char* no : {"0", "no", "false", "off"})
    if (::strcasecmp(value, no) == 0) return true;
  return false;
}

}  // namespace

void keep_forks_safe() {
  const char* const huge_pages = std::getenv("FI_EFA_USE_HUGE_PAGE");
  const bool wants_huge_pages = huge_pages && !says_no(huge_pages);
  if (!has_efa_card()) return;
  if (!wants_huge_pages) ::setenv("FI_EFA_FORK_SAFE", "1", 0);
  ::setenv("FI_EFA_USE_HUGE_PAGE", "0", 0);
}

}  // namespace fabring::fabric
