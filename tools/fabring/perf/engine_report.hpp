#pragma once
// What an engine says of itself for people (Engine::report()), read for programs.

#include <string>
#include <vector>

#include "fabring/communicator.hpp"

namespace fabring::tools {

/// Of a line "transport tcp: 10.0.0.1:4000, 4 sockets": what data may travel on, and how it describes itself.
struct TransportLine {
  std::string name, description;
};

/// First memory that ranks of one host share, then the network; none of one rank.
std::vector<TransportLine> transport_lines(const std::vector<std::string>& report);

/// "shm", "tcp", or "shm+tcp" where some ranks are on other nodes; what was asked for (FABRING_TRANSPORT) of one rank.
std::string transports_in_use(const Engine& engine);

}  // namespace fabring::tools
