#pragma once
// What EFA is told before libfabric first looks at its variables, so that a process may fork (data loaders do).
//
// EFA ends a process that forks where the kernel does not copy pinned pages by itself (before 5.13) and nobody has
// asked for FI_EFA_FORK_SAFE; on newer kernels that says nothing. By itself it takes huge pages for its pinned pools,
// which the kernel then copies at a fork: the pool of them runs dry, and the fork fails with ENOMEM. What is set
// already stays as it is, and as EFA ends a process that wants both, FI_EFA_FORK_SAFE is not added to
// FI_EFA_USE_HUGE_PAGE=1.

#include <string>

namespace fabring::fabric {

/// Where the kernel lists RDMA devices. Tests name another folder, before libfabric is first used.
inline std::string infiniband_folder = "/sys/class/infiniband";

/// Sets the variables where there is an EFA card, else nothing. setenv() must not run beside a getenv() of another
/// thread: it is called once (prepare_for_fabric), by an engine that may use libfabric before it starts a thread, and
/// at the latest before libfabric is loaded; and only what is not there is written. A program whose own threads read
/// the environment then sets the two itself.
void keep_forks_safe();

}  // namespace fabring::fabric
