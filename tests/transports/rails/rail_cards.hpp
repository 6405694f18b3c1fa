#pragma once
// Cards as the tests of rails name them, of 1000 Mbit/s.

#include "transports/rails/rails.hpp"

namespace fabring::rails {

inline Card card(const char* name, const char* network, bool near = true) { return {name, network, "", 1000, near}; }

inline Card at(const char* name, const char* network, const char* address) {
  return {name, network, address, 1000, true};
}

}  // namespace fabring::rails
