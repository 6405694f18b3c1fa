#pragma once
// The limit on open files (ulimit -n) of a launcher, which has some descriptors for each rank or host: it raises its
// soft limit as far as that takes, and its children get back what it was started with. Many programs have reasons for a
// small one: select(), or a loop that closes all there could be.

#include <sys/resource.h>

#include <cstddef>
#include <optional>

namespace fabring::tools {

/// Makes room for `more` descriptors than are open now, within the hard limit. What there is no room for fails later,
/// with EMFILE.
void allow_open_files(std::size_t more);

/// What children are to be given before exec; nothing where allow_open_files() changed nothing.
std::optional<rlimit> open_files_of_children();

}  // namespace fabring::tools
