#include "config.hpp"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace fabring_torch {
namespace {

/// Who a rank is, is c10d's to say, and how the job is called rank 0's.
bool says_who(std::string_view name) {
  return name == "FABRING_RANK" || name == "FABRING_WORLD_SIZE" || name == "FABRING_LOCAL_RANK" ||
         name == "FABRING_MASTER_ADDR" || name == "FABRING_MASTER_PORT" || name == "FABRING_JOB_ID";
}

bool is_number(const char* text) {
  const std::string_view digits(text != nullptr ? text : "");
  return !digits.empty() && digits.size() <= 6 && digits.find_first_not_of("0123456789") == digits.npos;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// torchrun takes any --rdzv-id; a setting does not, and a name that nobody gave for it must not keep a job from
/// starting.
bool is_fit_to_name_a_job(std::string_view text) {
  constexpr std::size_t longest = 512;
  return !text.empty() && text.size() <= longest && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

}  // namespace

// As the row of torchrun in runtime/bootstrap/launchers.cpp has it; but without a run id there is no name: "none" is
// that of every job that was started by hand.
std::string job_name() {
  if (const std::string ours = variable("FABRING_JOB_ID"); !ours.empty()) return ours;
  const std::string run = variable("TORCHELASTIC_RUN_ID"), port = variable("MASTER_PORT");
  if (!is_fit_to_name_a_job(run)) return "";
  return c10::str("torchrun.", run, ".", is_number(port.c_str()) ? port : "29500");
}

void configure(Config& config, int rank, int size, std::chrono::milliseconds timeout, const std::string& job) {
  config.set("FABRING_RENDEZVOUS_TIMEOUT", c10::str(timeout.count(), "ms"));
  config.set("FABRING_TIMEOUT", c10::str(timeout.count(), "ms"));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with("FABRING_")) continue;
    const std::string name(text.substr(0, equals));
    if (!says_who(name)) config.set(name, std::string(text.substr(equals + 1)));
  }
  if (!job.empty()) config.set("FABRING_JOB_ID", job);
  config.set("FABRING_RANK", std::to_string(rank));
  config.set("FABRING_WORLD_SIZE", std::to_string(size));
  // Which GPU and network cards are near: c10d does not know it, the launcher does. LOCAL_RANK first: `import
  // fabring.torch` has made it ours where `fabring run` says who a rank is; below a torchrun all workers inherit one
  // FABRING_LOCAL_RANK from further out. The launchers' names and their order are runtime/bootstrap/launchers.cpp's
  // (tests/runtime/bootstrap/launchers_test.cpp).
  for (const char* name :
       {"LOCAL_RANK", "FABRING_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* number = std::getenv(name); is_number(number)) {
      config.set("FABRING_LOCAL_RANK", number);
      break;
    }
  // Only which interface is meant; nobody listens there.
  for (const char* name : {"FABRING_MASTER_ADDR", "MASTER_ADDR"})
    if (const char* address = std::getenv(name); address != nullptr && *address != '\0') {
      config.set("FABRING_MASTER_ADDR", address);
      break;
    }
}

}  // namespace fabring_torch
