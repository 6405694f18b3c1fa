#include "runtime/bootstrap/rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "runtime/base/digest.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/launch_environment.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "runtime/bootstrap/meeting_client.hpp"
#include "runtime/bootstrap/meeting_server.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

Status check_entry(const std::string& key, const std::string& value) {
  if (!key.empty() && key.size() <= meeting::most_key_bytes && value.size() <= meeting::most_value_bytes) return {};
  return Status(ErrorCode::invalid_argument,
                fmt::format("bootstrap entry '{}' with {} bytes is too long: at most {} and {}", key, value.size(),
                            meeting::most_key_bytes, meeting::most_value_bytes));
}

class ServingBootstrap final : public Bootstrap {
 public:
  ServingBootstrap(std::unique_ptr<MeetingServer> server, std::string address)
      : server_(std::move(server)), address_(address.empty() ? server_->local_address() : std::move(address)) {}
  Status put(const std::string& key, const std::string& value) override {
    FABRING_TRY(check_entry(key, value));
    return server_->put(key, value);
  }
  Result<std::string> get(const std::string& key, SteadyTime deadline) override { return server_->get(key, deadline); }
  Status failure() override { return server_->failure(); }
  void give_up(const Status& why) override { server_->give_up(why); }
  void finish() override { server_->finish(); }
  std::uint64_t job_nonce() const override { return server_->job_nonce(); }
  std::string local_address() const override { return address_; }
  bool all_on_this_host() const override { return server_->all_on_this_host(); }
  std::uint64_t strangers() const override { return server_->strangers(); }

 private:
  const std::unique_ptr<MeetingServer> server_;
  const std::string address_;
};

class VisitingBootstrap final : public Bootstrap {
 public:
  VisitingBootstrap(std::unique_ptr<MeetingClient> client, std::string address)
      : client_(std::move(client)), address_(address.empty() ? client_->local_address() : std::move(address)) {}
  Status put(const std::string& key, const std::string& value) override {
    FABRING_TRY(check_entry(key, value));
    return client_->put(key, value);
  }
  Result<std::string> get(const std::string& key, SteadyTime deadline) override {
    FABRING_TRY(check_entry(key, ""));
    return client_->get(key, deadline);
  }
  Status failure() override { return client_->failure(); }
  void give_up(const Status& why) override { client_->give_up(why); }
  void finish() override { client_->finish(); }
  std::uint64_t job_nonce() const override { return client_->job_nonce(); }
  std::string local_address() const override { return address_; }
  bool all_on_this_host() const override { return client_->all_on_this_host(); }
  std::uint64_t strangers() const override { return 0; }

 private:
  const std::unique_ptr<MeetingClient> client_;
  const std::string address_;
};

/// A world of one meets nobody: no port, no name, no thread.
class LonelyBootstrap final : public Bootstrap {
 public:
  explicit LonelyBootstrap(std::string address) : address_(address.empty() ? "127.0.0.1" : std::move(address)) {}
  Status put(const std::string& key, const std::string& value) override {
    FABRING_TRY(check_entry(key, value));
    values_.emplace(key, value);
    return {};
  }
  Result<std::string> get(const std::string& key, SteadyTime) override {
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    return Status(ErrorCode::timeout, fmt::format("nobody has published '{}', and there is no other rank", key));
  }
  std::uint64_t job_nonce() const override { return nonce_; }
  std::string local_address() const override { return address_; }
  bool all_on_this_host() const override { return true; }
  std::uint64_t strangers() const override { return 0; }

 private:
  const std::uint64_t nonce_ = random_nonce();
  const std::string address_;
  std::map<std::string, std::string> values_;
};

Status check_config(const Config& config) {
  if (config.world_size < 1)
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("the world size is {}: set FABRING_WORLD_SIZE to the number of ranks", config.world_size));
  if (config.rank < 0 || config.rank >= config.world_size)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("rank {} is out of range: with FABRING_WORLD_SIZE={} ranks go "
                              "from 0 to {}; check FABRING_RANK",
                              config.rank, config.world_size, config.world_size - 1));
  if (config.world_size == 1) return {};
  if (config.master_addr.empty())
    return Status(ErrorCode::invalid_argument,
                  "nobody said where rank 0 can be reached: set FABRING_MASTER_ADDR to a name or address of its host");
  // No name has these, and the resolver would be asked for it until the deadline.
  if (config.master_addr.find_first_of(":/[] ") != std::string::npos && !is_numeric_address(config.master_addr))
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("{} '{}' is neither a name nor an address: write host, 10.0.0.1 or fd00::1 and nothing else; the "
                    "port goes into {}",
                    config.master_named_by, config.master_addr,
                    config.master_named_by == "MASTER_ADDR" ? "MASTER_PORT" : "FABRING_MASTER_PORT"));
  if (lacks_interface(config.master_addr))
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{} '{}' is an address of one link, and every interface has such a link: write the "
                              "interface after it ({}%eth0; each rank its own), or give another address of that host",
                              config.master_named_by, config.master_addr, config.master_addr));
  if (const net::SocketAddress here{config.master_addr, 0};
      is_numeric_address(here.host) && here.is_loopback() && !has_route_to(here))
    return Status(
        ErrorCode::unavailable,
        fmt::format(
            "{} {} is every host's own, but nothing can be sent to it on {}: its loopback interface is down (`ip "
            "link set lo up`){}",
            config.master_named_by, here.host, host_name(),
            here.host.find(':') == std::string::npos ? "" : ", or IPv6 is switched off"));
  if (config.master_port < 1 || config.master_port > 65535)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the master's port is {}: set FABRING_MASTER_PORT to 1 ... 65535, the same on all ranks",
                              config.master_port));
  return {};
}

/// The addresses of the master's name that this host has. DNS may lag behind a restarted pod, so a name gets some time.
Result<std::vector<net::SocketAddress>> own_master_addresses(const Config& config, const MeetingTerms& terms,
                                                             const Log& log) {
  const auto port = static_cast<std::uint16_t>(config.master_port);
  const bool numeric = is_numeric_address(config.master_addr);
  const SteadyTime started = std::chrono::steady_clock::now();
  std::optional<SteadyTime> foreign_until;
  for (auto pause = 50ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 1s)) {
    auto addresses = resolve_until(config.master_addr, port, terms.deadline);
    if (addresses) {
      const std::string all = hosts_text(*addresses);
      std::erase_if(*addresses, [](const net::SocketAddress& address) { return !is_local_address(address); });
      if (!addresses->empty()) return addresses;
      const std::string what =
          numeric ? fmt::format("{} {}", config.master_named_by, config.master_addr)
                  : fmt::format("{} {} resolves to {}, which", config.master_named_by, config.master_addr, all);
      const SteadyTime now = std::chrono::steady_clock::now();
      if (!foreign_until) {
        foreign_until = numeric ? now : std::min(now + terms.options.stale_name_limit, terms.deadline);
        if (!numeric)
          log.warning(
              fmt::format("{} is no address of this host ({}), but this is rank 0: waiting up to {} for the "
                          "name to change, as a name service gives out old addresses for a while",
                          what, host_name(), duration_text(*foreign_until - now)));
      }
      if (now >= *foreign_until)
        return Status(ErrorCode::unavailable,
                      fmt::format("{} is no address of this host ({}), but this is rank 0: give an address of the host "
                                  "where rank 0 runs, or start rank 0 there",
                                  what, host_name()));
    }
    if (std::chrono::steady_clock::now() + pause >= terms.deadline && !addresses)
      return Status(
          ErrorCode::unavailable,
          fmt::format("{} '{}' did not resolve for {} ({}): check the name, or give a numeric address of this host",
                      config.master_named_by, config.master_addr,
                      duration_text(std::chrono::steady_clock::now() - started), addresses.error().message()));
    std::this_thread::sleep_for(pause);
  }
}

bool only_loopback(const std::vector<net::SocketAddress>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [](const auto& address) { return address.is_loopback(); });
}

/// Debian and Ubuntu tell a host that its own name is 127.0.1.1, while other hosts have another address for it: there
/// they look for rank 0, and whether there are any is not known before they come.
void add_interfaces(const Config& config, std::vector<net::SocketAddress>& addresses, const Log& log) {
  if (!only_loopback(addresses) || is_numeric_address(config.master_addr) || is_localhost(config.master_addr)) return;
  const auto all = interface_addresses();
  if (!all) return;
  std::vector<net::SocketAddress> added;
  for (const InterfaceAddress& one : usable_interfaces(*all, {config.interface, false, ""})) {
    const net::SocketAddress address{one.address, addresses.front().port};
    if (std::find(added.begin(), added.end(), address) == added.end() && is_local_address(address))
      added.push_back(address);
  }
  if (added.empty()) return;
  log.info(fmt::format("{} {} is {} on this host, where no other host can come: rank 0 listens on {} too",
                       config.master_named_by, config.master_addr, hosts_text(addresses), hosts_text(added)));
  addresses.insert(addresses.end(), added.begin(), added.end());
}

Result<std::unique_ptr<MeetingServer>> serve(const Config& config, MeetingTerms terms, const Log& log) {
  auto addresses = own_master_addresses(config, terms, log);
  if (!addresses) return addresses.error();
  add_interfaces(config, *addresses, log);
  if (only_loopback(*addresses))
    terms.hint = fmt::format(
        "rank 0 listens on {} only, which ranks on other hosts cannot reach: if there are any, set "
        "FABRING_MASTER_ADDR to an address that they can",
        hosts_text(*addresses));
  Status first_error;
  std::vector<net::SocketAddress> taken;
  for (std::uint16_t port :
       candidate_ports(static_cast<std::uint16_t>(config.master_port), config.master_port_shared)) {
    for (auto& address : *addresses) address.port = port;
    auto server = MeetingServer::start(*addresses, terms, log);
    if (server) {
      if (!taken.empty()) (*server)->look_for_twin(std::move(taken));
      return server;
    }
    if (!config.master_port_shared) return server;
    taken.insert(taken.end(), addresses->begin(), addresses->end());
    if (first_error.ok()) first_error = server.error();
    log.debug(fmt::format("port {} is taken, trying the next: {}", port, server.error().message()));
  }
  return first_error.with_prefix(
      fmt::format("none of the {} ports from {} is free; the first: ", shared_port_attempts, config.master_port));
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> rendezvous(const Config& given, const std::string& secret, const Log& log,
                                              const RendezvousOptions& options) {
  Config config = given;
  if (config.master_port == 0) config.master_port = default_master_port;  // no environment was asked for it
  FABRING_TRY(check_config(config));
  if (config.world_size == 1)
    return std::unique_ptr<Bootstrap>(std::make_unique<LonelyBootstrap>(options.local_address));

  HandshakeOptions greeting = greeting_for(config, secret, 0, Purpose::rendezvous);
  // On ports that several jobs may try, the port they began at is part of the job's name: torchrun calls every job
  // "none".
  if (config.master_port_shared) greeting.job_id += fmt::format("@{}", config.master_port);
  const SteadyTime started = std::chrono::steady_clock::now();
  const SteadyTime deadline = started + config.rendezvous_timeout;
  const std::string fingerprint = options.fingerprint.empty() ? host_fingerprint() : options.fingerprint;

  if (config.rank == 0) {
    const meeting::Join self{fingerprint, host_name(), static_cast<std::uint32_t>(::getpid())};
    MeetingTerms terms{greeting, config.master_port_shared, "", fingerprint, self, started, deadline, options};
    auto server = serve(config, terms, log);
    if (!server) return server.error();
    FABRING_TRY((*server)->wait_for_all());
    if (secret.empty() && !(*server)->all_on_this_host())
      log.info("no FABRING_SECRET_FILE: any process that can reach the ranks' ports and knows the job id can join");
    return std::unique_ptr<Bootstrap>(std::make_unique<ServingBootstrap>(std::move(*server), options.local_address));
  }
  MasterSearch search{config.master_addr,
                      config.master_named_by,
                      static_cast<std::uint16_t>(config.master_port),
                      config.master_port_shared,
                      greeting,
                      started,
                      deadline,
                      options.note_interval};
  const meeting::Join join{fingerprint, host_name(), static_cast<std::uint32_t>(::getpid())};
  auto client = MeetingClient::meet(search, join, log);
  if (!client) return client.error();
  return std::unique_ptr<Bootstrap>(std::make_unique<VisitingBootstrap>(std::move(*client), options.local_address));
}

Result<std::unique_ptr<Bootstrap>> rendezvous(const Config& config, const std::string& secret, const Log& log) {
  return rendezvous(config, secret, log, RendezvousOptions{});
}

}  // namespace fabring
