#pragma once
// Transport: can this fabric run here, and if so, open an Endpoint on it.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "runtime/base/clock.hpp"
#include "transports/device_memory.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

/// What an endpoint must know about the job. All ranks of the job have the same job_nonce and world_size.
struct EndpointOptions {
  Rank self = 0;
  int world_size = 1;
  std::string bind_address;     ///< numeric IPv4 or IPv6 address of the chosen interface; never empty
  std::uint64_t job_nonce = 0;  ///< random per incarnation of the job; connections without it are strangers
  std::string job_id;
  std::string secret;  ///< contents of the secret file; empty: none
  /// Devices near this rank, best first, by name ("rdmap16s27") or PCI address ("0000:10:1b.0"); empty: no preference.
  std::vector<std::string> near_devices;
  /// One of several endpoints of this rank, each on a card of its own: what it sends must leave by that card.
  bool one_of_several = false;
  std::shared_ptr<DeviceMemory> device_memory;             ///< GPUs; null: all memory is the host's
  std::function<void(const std::string& text)> note = {};  ///< something people should know; may be empty
  /// By which a transport does what is due from time to time; tests turn it.
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
  Config config;  ///< settings that concern this transport (provider, sockets_per_peer, ...)
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  /// Success with a line of reason ("provider net, protocol XNET, 127.0.0.1"), or why it cannot run here.
  virtual Result<std::string> probe(const EndpointOptions& options) = 0;
  /// After a probe that succeeded: the provider that was found, where ranks with different ones do not reach each other
  /// ("efa", "tcp").
  virtual std::string provider() const { return {}; }
  /// The cards that near_devices can name, where it is not the interface of bind_address that decides; else none.
  virtual std::vector<std::string> devices(const EndpointOptions& options) {
    (void)options;
    return {};
  }
  virtual Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) = 0;
};

}  // namespace fabring
