"""Memory that ranks read and write directly, in real processes: right sums, with a rank that uses ordinary memory among
them; a kill -9 or a stop while others read it ends in the named error, and what belongs to no name is gone. Of a job whose
ranks are all killed nothing is left that has a name: in /dev/shm, of System V or among abstract sockets."""

import contextlib
import glob
import os
import signal

from harness import Job, arguments, require, require_error, run_cases, socket_inodes

LOOP = "loop steps=0 mapped=1 sizes=4194304,16777216,1048580 every=3"


def memory_mib():
    """What memfds and the like hold on this machine."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith("Shmem:"))) // 1024


def right(options):
    with Job(options.program, 3, "shm") as job:
        job.start_all(lambda number: [f"loop steps=12 mapped={int(number != 1)} sizes=4,65536,1048580,16777216", "leave"])
        for rank in job.ranks:
            rank.wait_exit(60)
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}")


def killed(options):
    with Job(options.program, 3, "shm") as job:
        job.start_all([LOOP])
        job.wait_event("step", 60)
        job.ranks[1].signal(signal.SIGKILL)
        for rank in job.others(1):
            rank.wait_exit(30)
            require(not rank.find("wrong"), f"rank {rank.number} has a wrong sum")
            require_error(rank, "peer_lost", 1)
    return "shm holds %d MiB now" % memory_mib()


def stopped(options):
    """The one that was stopped wakes up when the others have given it up: it must end with an error, not with a sum."""
    with Job(options.program, 3, "shm", {"FABRING_SILENCE_TIMEOUT": "2"}) as job:
        job.start_all([LOOP])
        job.wait_event("step", 60)
        job.ranks[2].signal(signal.SIGSTOP)
        for rank in job.others(2):
            rank.wait_exit(60)
            require_error(rank, "peer_lost", 2)
        job.ranks[2].signal(signal.SIGCONT)
        job.ranks[2].wait_exit(60)
        require(job.ranks[2].exit_code == 3, f"rank 2 ended with {job.ranks[2].exit_code}")
        for rank in job.ranks:
            require(not rank.find("wrong"), f"rank {rank.number} has a wrong sum")


def abstract_names(inodes=None):
    """Of our abstract sockets, those with these inodes or all."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        rows = [line.split() for line in list(table)[1:]]
    return {row[7] for row in rows if len(row) > 7 and row[7].startswith("@fabring") and (inodes is None or row[6] in inodes)}


def segments(creators):
    """System V segments that these processes made."""
    with open("/proc/sysvipc/shm", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    return [f"segment {row[1]} of {row[3]} bytes" for row in rows if int(row[4]) in creators]


def files_in_memory(pid):
    """Names in /dev/shm that this process has mapped or open."""
    names = set()
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.add(os.readlink(path))
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        names |= {line.split(maxsplit=5)[-1].strip() for line in lines}
    return {name for name in names if name.startswith("/dev/shm/")}


def all_killed(options, transport):
    with Job(options.program, 3, transport) as job:
        job.start_all([LOOP])
        job.wait_event("step", 60)
        pids = {rank.process.pid for rank in job.ranks}
        names = set().union(*(abstract_names(socket_inodes(pid)) for pid in pids))
        require(len(names) >= len(pids), f"the ranks should have a socket each to be asked at, but have {sorted(names)}")
        files = set().union(*(files_in_memory(pid) for pid in pids))
        for rank in job.ranks:
            rank.signal(signal.SIGKILL)
        job.wait_exit(10)
        left = sorted(path for path in files if os.path.exists(path))
        left += segments(pids) + sorted(names & abstract_names())
        require(not left, f"left behind: {', '.join(left)}")


def main():
    options = arguments(__doc__, runs=1)
    cases = [("right sums", lambda: right(options))]
    cases += [(f"nothing is left when all are killed, {transport}", lambda t=transport: all_killed(options, t))
              for transport in options.transports]
    for number in range(options.runs):
        cases += [(f"a kill -9, {number}", lambda: killed(options)), (f"a stop, {number}", lambda: stopped(options))]
    run_cases(cases, at_once=3)


main()
