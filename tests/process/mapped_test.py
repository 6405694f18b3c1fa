"""Memory that ranks read and write directly, in real processes: right sums, with a rank that uses ordinary memory among
them; a kill -9 or a stop while others read it ends in the named error, and what belongs to no name is gone."""

import signal

from harness import Job, arguments, require, require_error, run_cases

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


def main():
    options = arguments(__doc__, runs=1)
    cases = [("right sums", lambda: right(options))]
    for number in range(options.runs):
        cases += [(f"a kill -9, {number}", lambda: killed(options)), (f"a stop, {number}", lambda: stopped(options))]
    run_cases(cases, at_once=1)


main()
