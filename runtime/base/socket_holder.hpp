#pragma once
// Which process holds a socket: by its inode, from the links in /proc/*/fd.

#include <sys/types.h>

#include <string>
#include <vector>

namespace fabring {

/// "socket:[4711]", as those links name it.
std::string socket_link(const std::string& inode);

/// The first process, by number, that has one of these open; of a process and its forks that is most often the one that
/// made it. 0: none that we may look at.
pid_t socket_holder(const std::vector<std::string>& links);

}  // namespace fabring
