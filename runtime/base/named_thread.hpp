#pragma once
// A thread of ours: named for ps and gdb, and with every signal blocked, so that the program's handlers keep running in
// the program's own threads.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fabring/status.hpp"

namespace fabring {

/// `name`: at most 15 characters (the kernel's limit). Error: unavailable when the system gives no more threads.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

/// Keeps a thread on these processors; an empty list changes nothing. A refusal is no error: it runs where it did.
void bind_thread(std::thread& thread, const std::vector<int>& cpus);

}  // namespace fabring
