#pragma once
// The shm transport: the ranks of one host through memory they share. All peers that are added must be on this node.

#include <memory>

#include "transports/transport.hpp"

namespace fabring {

std::unique_ptr<Transport> make_shm_transport();

}  // namespace fabring
