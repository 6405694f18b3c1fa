"""Limits of the system: with too few open files, threads or bytes in a file a job works or ends with an error that names
the limit, on every rank and in bounded time. No rank crashes, none hangs."""

import os
import shutil
import subprocess

import harness
from harness import Job, Skipped, arguments, cli, require, run_cases

COMMANDS = ["loop steps=2 sizes=4,65536,1048576", "async steps=2 sizes=64 window=2", "leave"]
USER = "64997"  # nobody else's: the limit on threads counts those of a user
OTHER_USER = "64996"  # likewise, not to be counted among them
WITHOUT_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0"}  # LeakSanitizer looks from a thread, for which there is no room


def under(limit, user=None):
    """The words before a program's that start it under a limit of bash's ulimit."""
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    return [*as_user, "bash", "-c", f'ulimit {limit} && exec "$@"', "bash"]


def run(options, transport, limit, limited, words, must=None, user=None, more=None):
    """`limited`: the ranks under the limit. `must`: the exit code of all, if only one will do. `more`: settings."""
    settings = {"FABRING_RENDEZVOUS_TIMEOUT": "2", **(more or {})}
    if user:
        settings.update(WITHOUT_LEAK_CHECK)
    with Job(options.program, 2, transport, settings) as job:
        for number in range(2):
            prefix = under(limit if number in limited else "-c 0", user)
            job.start(number, COMMANDS, prefix=prefix)
        job.wait_exit(10)
        texts = [error["text"] for rank in job.ranks for error in rank.errors()]
        for rank in job.ranks:
            require(rank.exit_code in ((0, 3) if must is None else (must,)), f"rank {rank.number} ended with {rank.exit_code}")
            require(rank.exit_code == 0 or len(rank.errors()) == 1, f"rank {rank.number} reported {len(rank.errors())} errors")
        if any(rank.exit_code for rank in job.ranks):
            named = [error["rank"] for rank in job.ranks for error in rank.errors() if error["where"] != "start"]
            require(all(rank in limited for rank in named),
                    f"{named} are at fault, not one of {limited}")
            require(any(word in text for word in words for text in texts), f"none of {words} is in any error")
            return "an error"
    return "works"


def many_ranks(options, count, limit):
    """Descriptors that ranks hand each other are on their way for a moment: more, in all, than one process may have."""
    with Job(options.program, count, "shm", {"FABRING_RENDEZVOUS_TIMEOUT": "60"}) as job:
        for number in range(count):
            job.start(number, ["loop steps=1 sizes=64", "leave"], prefix=under(limit, OTHER_USER))
        job.wait_exit(90)
        for rank in job.ranks:
            said = [error["text"] for error in rank.errors()]
            require(rank.exit_code == 0, f"rank {rank.number} ended with {rank.exit_code}: {said}")
    return "works"


def asked_without_threads(options):
    """Who looks for a hang on a host where a limit is reached gets an answer."""
    with Job(options.program, 3, "tcp") as job:
        for number in range(3):
            job.start(number, ["serve"], prefix=under("-c 0", OTHER_USER))
        job.wait_event("serving", 30)
        for words in ["status"], ["doctor", "hang", "--after", "0.1"]:
            done = subprocess.run([*under("-u 1", OTHER_USER), cli(options), *words, job.settings["FABRING_JOB_ID"]],
                                  env={**os.environ, **WITHOUT_LEAK_CHECK}, capture_output=True, text=True,
                                  timeout=30 * harness.slowness)
            require(done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr}")
            require("3 ranks" in done.stdout, f"{words} says {done.stdout}")
    return "works"


def main():
    options = arguments(__doc__, runs=1)
    cases = []

    def case(name, *details, **more):
        if options.only in name:
            cases.append((name, lambda: run(options, *details, **more)))

    # Every descriptor that a rank opens is the first that it does not get, in turn on one rank, on the other, on both.
    files = ["open files", "ulimit -n"]
    for transport in options.transports:
        for count in range(7, 25):
            limited = ((0, 1), (0,), (1,))[count % 3]
            case(f"{count} open files on {limited} ({transport})", transport, f"-n {count}", limited, files)
    if "shm" in options.transports:
        for limited in ((0, 1), (0,), (1,)):
            case(f"small files on {limited}: the network instead", "shm,tcp", "-f 1000", limited, (), must=0)
            case(f"small files on {limited}, shm only", "shm", "-f 1000", limited, ["ulimit -f"], must=3)
    if "shm" in options.transports and options.slowness == 1:  # a sanitizer needs addresses of its own
        for limited in ((0, 1), (0,), (1,)):  # each has its own memory, and none for the other's
            few = {"limit": f"-v {3 << 20}", "limited": limited, "more": {"FABRING_SCRATCH_BYTES": "1G"}}
            case(f"few addresses on {limited}: the network instead", "shm,tcp", words=(), must=0, **few)
            case(f"few addresses on {limited}, shm only", "shm", words=["ulimit -v"], must=3, **few)
    if os.geteuid() == 0 and shutil.which("setpriv"):  # the limit on threads does not hold for root
        for transport in options.transports:
            for count in range(1, 9):
                case(f"{count} threads ({transport})", transport, f"-u {count}", (0, 1), ["ulimit -u"], user=USER)
        name = "30 ranks share memory with 256 open files each"
        if "shm" in options.transports and options.only in name:
            cases.append((name, lambda: many_ranks(options, 30, "-n 256")))
        name = "a job is asked where there are no threads"
        if options.only in name:
            cases.append((name, lambda: asked_without_threads(options)))
    elif options.only in "limits on threads":
        cases.append(("limits on threads", without_root))
    # One after the other: all ranks are of one user, and are counted together.
    threads = [entry for entry in cases if " threads (" in entry[0]]
    others = [entry for entry in cases if entry not in threads]
    run_cases(others + ([("limits on threads", lambda: one_by_one(threads))] if threads else []), at_once=6)


def without_root():
    raise Skipped("needs root and setpriv")


def one_by_one(cases):
    for _, run_it in cases:
        run_it()
    return f"{len(cases)} limits"


main()
