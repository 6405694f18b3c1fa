#pragma once
// Does the kernel let one process of this user read another one's memory, as ranks of a host do with each other's?

#include <optional>

namespace fabring::tools {

/// Tried by a child, which is to this process what ranks are to each other. 0, or the errno with which the kernel
/// refused; nothing: it could not be tried.
std::optional<int> try_process_read();

}  // namespace fabring::tools
