#pragma once
// Everything a C++ program needs of Fabring.
#include "fabring/communicator.hpp"
#include "fabring/config.hpp"
#include "fabring/log.hpp"
#include "fabring/memory.hpp"
#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "fabring/store.hpp"
#include "fabring/types.hpp"
#include "fabring/version.hpp"
