#pragma once
// What is told by the store, bad news above all: who tells it may be the process that has the store, and about to end
// with it. So it stays until the others have said that they know, for a bounded time, as one of them may be dead.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

namespace fabring_torch {

/// This rank has read what it was told. No error: what matters is what it raises.
void say_heard(c10d::Store& store, const std::string& key);

/// Returns when each of these keys was said, after 2 s, or when the store is lost.
void wait_until_heard(c10d::Store& store, const std::vector<std::string>& keys);

}  // namespace fabring_torch
