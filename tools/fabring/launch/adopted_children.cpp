#include "tools/fabring/launch/adopted_children.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace fabring::tools {

std::vector<pid_t> children() {
  std::ifstream file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> found;
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void reap_adopted(const std::vector<pid_t>& own) {
  for (pid_t child : children())
    if (std::find(own.begin(), own.end(), child) == own.end()) ::waitpid(child, nullptr, WNOHANG);
}

void end_children(std::chrono::milliseconds limit, const std::vector<pid_t>& spared) {
  const auto until = std::chrono::steady_clock::now() + limit;
  const auto ours = [&] {
    std::vector<pid_t> found = children();
    std::erase_if(found, [&](pid_t child) { return std::find(spared.begin(), spared.end(), child) != spared.end(); });
    return found;
  };
  // Killing one may bring its children to us.
  for (auto left = ours(); !left.empty() && std::chrono::steady_clock::now() < until; left = ours()) {
    for (pid_t child : left) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, WNOHANG);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace fabring::tools
