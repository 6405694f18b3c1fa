#pragma once
// Sockets that a child of fork() does not keep, as close-on-exec is for exec: other ranks see this process die by their
// ends, which a child that has copies would hide for as long as it lives.
//
// They are closed in the child by a handler of pthread_atfork: not where a child is made by vfork(), posix_spawn(),
// _Fork() or clone() alone. Their numbers stay taken there, by a socket that is connected to nothing: what the child's
// destructors close must not be a file that the child has opened since. A child also keeps copies of descriptors from
// 65536 on, and of a socket that another thread of the parent was just about to open or close at that moment.

#include <vector>

namespace fabring::close_on_fork {

/// Of a socket of ours, once it is open. Any thread; no lock. What is no socket is left out.
void add(int socket);

/// Before it is closed: its number may be the program's next. Of any descriptor.
void remove(int descriptor);

/// Those that are there now, by number, none of them of a parent.
std::vector<int> sockets();

}  // namespace fabring::close_on_fork
