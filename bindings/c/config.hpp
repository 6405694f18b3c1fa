#pragma once
// Settings as texts for C.

#include <cstddef>

#include "fabring/config.hpp"

namespace fabring::c_api {

/// The value of a setting of this name, as fabring_config_get says.
Status give_setting(const Config& from, const char* name, char* text, std::size_t size, std::size_t* needed);

}  // namespace fabring::c_api
