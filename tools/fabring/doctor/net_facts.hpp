#pragma once
// What `fabring doctor net` knows of each rank: who and where it is, what its host has, and what its probes of the
// other ranks found. Values that travel to rank 0, which judges them; decoders take bytes from anybody.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/wire.hpp"

namespace fabring::tools {

/// How a probe of another rank ended.
enum class Reach : std::uint8_t {
  fine,
  refused,        ///< nobody listens there, or a firewall says no
  no_answer,      ///< nothing came back: dropped on the way
  no_route,       ///< this host has no way there
  cut,            ///< connected, then reset or closed
  mute,           ///< connected, then silence
  wrong_service,  ///< somebody else answers
  turned_away,    ///< a rank answers, but of another job, version or secret; `text` says what
  large_stalls,   ///< small messages pass, large ones do not
  not_tried,      ///< time ran out, or the rank gave no address
  unrouted,       ///< not called: packets from the card of this network leave by another
};

struct Probe {
  Rank to = -1;
  std::uint8_t door = 0;  ///< index into NetFacts::doors of the rank probed
  Reach reach = Reach::not_tried;
  std::uint32_t rtt_us = 0;    ///< best of several
  std::int64_t offset_us = 0;  ///< its clock minus ours, give or take half of rtt_us
  std::uint32_t large_ms = 0;  ///< how long 64 KiB took
  std::uint32_t path_mtu = 0;  ///< as the kernel knows it; 0: not known
  std::uint16_t segment = 0;   ///< TCP's maximum segment size
  std::string text;            ///< the system's words where it failed, short
};

/// A place at which a rank listens: as a job's ranks do, at a port that the system chose.
struct Door {
  std::string purpose;    ///< "control", "data", "control and data", "data over libfabric"
  std::string interface;  ///< or the device
  std::string network;    ///< "10.0.0.0/24": doors of one network are joined
  std::string address;    ///< "10.0.0.1:41234", for people if it is libfabric's
  std::string fabric;     ///< what libfabric calls it; empty: a TCP port of ours
  std::uint32_t mtu = 0;  ///< of the interface; 0: not known
  std::string host_address() const { return address.substr(0, address.rfind(':')); }  ///< without the port
  bool carries_data() const { return purpose != "control"; }
  bool is_control() const { return purpose.starts_with("control"); }
};

struct NetFacts {
  Rank rank = -1;
  std::string host, fingerprint, version;
  std::uint32_t pid = 0;
  std::vector<Door> doors;
  std::uint16_t doors_left_out = 0;     ///< that it has beyond those, because so many cannot be told
  std::vector<std::string> settings;    ///< "FABRING_TRANSPORT=tcp", those that were set and are not a rank's own
  std::vector<std::string> interfaces;  ///< "eth0 1500 10000": the cards that a rank could use: name, MTU, megabits/s
  std::vector<std::string> networks;    ///< transports between hosts that work here: "fabric", "tcp"; best first
  std::string provider;                 ///< libfabric's, where `networks` has that: "efa", "tcp"
  std::string problem;                  ///< why it has no doors

  std::string encode() const;
  static std::optional<NetFacts> decode(std::string_view bytes);
};

void put(WireWriter& out, const Door& door);
Door take_door(WireReader& in);

std::string encode(const std::vector<Probe>& probes);
/// Of ranks of a world of so many; nothing if they are none.
std::optional<std::vector<Probe>> decode_probes(std::string_view bytes, int world);

}  // namespace fabring::tools
