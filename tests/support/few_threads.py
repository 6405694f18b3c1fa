"""A process that the system gives no more threads: `with few_threads(2):` two more, as ulimit -u and pids.max do."""

import contextlib
import os
import resource

as_root = os.geteuid() == 0


@contextlib.contextmanager
def few_threads(more=0):
    """The limit does not hold for root, so for a while this process is a user's who has no other; without root only
    `more` = 0 is possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    running = len(os.listdir("/proc/self/task"))
    assert as_root or more == 0
    if as_root:
        user = 60_000 + os.getpid() % 4_000  # of none that Debian or a program of ours makes
        os.setresuid(user, user, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (running + more if as_root else 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
        if as_root:
            os.setresuid(0, 0, 0)
