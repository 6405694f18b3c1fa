"""Ranks in control groups that limit their processor time, as containers do: each goes by what its own group grants, however many
ranks there are in others, and by whole processors of it."""

import os

from harness import Job, Skipped, arguments, require, run_cases

PERIOD = 100_000  # microseconds
MOUNTS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup")


class Group:
    """A control group with a quota of so many processors."""

    def __init__(self, name, cpus):
        self.folder = None
        mount = next((mount for mount in MOUNTS if os.path.exists(os.path.join(mount, "cgroup.procs"))), None)
        if mount is None:
            raise Skipped("no control groups are mounted here")
        try:
            folder = os.path.join(mount, f"fabring-{os.getpid()}-{name}")
            os.mkdir(folder)
            self.folder = folder
            quota = int(cpus * PERIOD)
            files = {"cpu.max": f"{quota} {PERIOD}"} if mount == MOUNTS[-1] else {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota}
            for file, value in files.items():
                with open(os.path.join(self.folder, file), "w", encoding="ascii") as out:
                    out.write(str(value))
        except OSError as error:
            self.close()
            raise Skipped(f"no control group with a quota can be made here: {error}") from None

    def prefix(self):
        """The words before a program's that start it in here."""
        return ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', self.folder]

    def close(self):
        if self.folder:
            os.rmdir(self.folder)
            self.folder = None


def waiting(options, quotas, group_of):
    """What each rank says of whom it shares cores with. `quotas`: of each group; `group_of`: of each rank."""
    if len(os.sched_getaffinity(0)) < len(group_of):
        raise Skipped("needs a processor for each rank")
    groups = []
    try:
        for number, cpus in enumerate(quotas):
            groups.append(Group(f"{'-'.join(map(str, group_of))}-{number}", cpus))
        with Job(options.program, len(group_of), "shm") as job:
            for rank, group in enumerate(group_of):
                job.start(rank, ["loop steps=3 sizes=4,65536", "leave"], prefix=groups[group].prefix())
            ready = job.wait_event("ready", 30)
            job.expect_fine(60)
        return [next((line for line in event["report"] if line.endswith("then sleep")), "") for event in ready]
    finally:
        for group in groups:
            group.close()


def apart(options):
    for line in waiting(options, (1, 1), (0, 1)):
        require(line.endswith(": spin, then yield, then sleep"), line)


def together(options):
    for line in waiting(options, (1.5,), (0, 0)):
        require(line == "2 ranks on the 1.5 cores that the quota of its control group grants: yield, then sleep", line)


def main():
    options = arguments(__doc__, runs=1, transports="shm")
    cases = [("two groups with a processor each", lambda: apart(options)), ("two ranks and a processor and a half", lambda: together(options))]
    run_cases([case for case in cases if options.only in case[0]])


main()
