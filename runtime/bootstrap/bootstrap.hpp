#pragma once
// Bootstrap: how ranks that know only the environment learn each other's control addresses. A small key-value exchange;
// implemented by the environment rendezvous (rank 0 serves it at the master address) and, for frameworks, by a store
// they hand us. Everything larger travels over the control plane's tree afterwards.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "runtime/base/log.hpp"

namespace fabring {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  /// Publishes a value, at most 1 KiB.
  virtual Status put(const std::string& key, const std::string& value) = 0;
  /// Waits for a value until the deadline; the error says which ranks have not come yet.
  virtual Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline) = 0;
  /// Why the start of another rank has failed since all met, as far as this rank knows; never waits. May be asked
  /// often: whoever pays for each look does not look each time.
  virtual Status failure() { return {}; }
  /// This rank's start has failed: the others hear why. Nothing else may be asked for after it.
  virtual void give_up(const Status& /*why*/) {}
  /// What becomes of this rank is told in another way from now on. One that goes before that has failed, and the others
  /// hear so.
  virtual void finish() {}
  /// Random per incarnation of the job, the same on all ranks.
  virtual std::uint64_t job_nonce() const = 0;
  /// Address of this rank on the interface towards the others (numeric): where to listen. If some are on other hosts:
  /// on the way to the one address of rank 0 that most of those can use, on rank 0's host that address.
  virtual std::string local_address() const = 0;
  /// Every rank has told the same host fingerprint (kernel boot id and network namespace), which two hosts may have,
  /// and came to the master address from an address of rank 0's host, or has its HostBeacon there: loopback is enough.
  virtual bool all_on_this_host() const = 0;
  /// May what was published be of ranks of an earlier run? A framework's store may live on.
  virtual bool outlives_ranks() const { return false; }
  virtual std::uint64_t strangers() const = 0;
};

/// Meets the other ranks at config.master_addr:master_port; rank 0 serves. Returns when all world_size ranks are there
/// or config.rendezvous_timeout passed. Every 5 s of waiting is a warning naming the missing ranks (rank 0 and the
/// others). Errors: invalid_argument (rank out of range, twice, other world size), unavailable (port in use, name that
/// does not resolve, loopback master with ranks elsewhere), timeout (names missing ranks), mismatch (job, version,
/// secret).
Result<std::unique_ptr<Bootstrap>> rendezvous(const Config& config, const std::string& secret, const Log& log);

}  // namespace fabring
