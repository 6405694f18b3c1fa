#pragma once
// What it means that a store of c10d has failed, for people.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <string>

namespace fabring_torch {

/// Whose process has the store, and where to look.
std::string failed_store_text(c10d::Store& store, const std::exception& thrown);

}  // namespace fabring_torch
