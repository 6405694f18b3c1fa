#include "topology/host_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace fabring {
namespace {

constexpr std::string_view network_mark = "/net:";

std::string random_text() {
  std::random_device source;
  return "random-" + std::to_string(source()) + std::to_string(source());
}
}  // namespace

std::string host_fingerprint() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, boot) || boot.empty()) boot = random_text();
  struct stat space {};
  const std::string net = ::stat("/proc/self/ns/net", &space) == 0
                              ? std::to_string(space.st_dev) + "." + std::to_string(space.st_ino)
                              : random_text();
  return boot + std::string(network_mark) + net;
}

std::string_view kernel_of(std::string_view fingerprint) {
  return fingerprint.substr(0, fingerprint.find(network_mark));
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "?";
  return name;
}

}  // namespace fabring
