#pragma once
// A thread of ours: named for ps and gdb, and with every signal blocked, so that the program's handlers keep running in
// the program's own threads.

#include <functional>
#include <string>
#include <thread>

#include "fabring/status.hpp"

namespace fabring {

/// `name`: at most 15 characters (the kernel's limit). Error: unavailable when the system gives no more threads.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

}  // namespace fabring
