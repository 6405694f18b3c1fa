"""Shared memory where /dev/shm is as small as Docker's (64 MiB), has no room at all, or is not there: vectors longer than it
are summed all the same, in ordinary memory and in memory that ranks read and write directly. Nothing of ours lies there."""

import os
import shutil
import subprocess

import harness
from harness import Skipped, arguments, cli, require, run_cases

LONG = 80 << 20  # bytes, of each of a rank's buffers
# $1: the options of the tmpfs. The rest is what runs on it.
MOUNTED = 'mount -t tmpfs -o "mode=1777,$1" none /dev/shm && shift && exec "$@"'
# A /dev without a folder shm in it.
ABSENT = """new=$(mktemp -d) && mount -t tmpfs none "$new" && for name in null zero full random urandom; do
  touch "$new/$name" && mount --bind "/dev/$name" "$new/$name" || exit 1
done && mount --move "$new" /dev && rmdir "$new" && exec "$@\""""
MOUNTS = {"of 64 MiB": ["sh", "-c", MOUNTED, "sh", "size=64m"], "without room": ["sh", "-c", MOUNTED, "sh", "size=4k,ro"],
          "that is not there": ["sh", "-c", ABSENT, "sh"]}
SEEN = {"of 64 MiB": f"{64 << 20}\n", "without room": f"{4 << 10}\n", "that is not there": ""}


def inside(words, program, environment=None):
    """Runs it in a mount namespace of its own."""
    return subprocess.run(["unshare", "-m", "--propagation", "private", *words, *program], env=environment,
                          capture_output=True, text=True, timeout=60 * harness.slowness)


def check_possible(where):
    """Is /dev/shm as it should be, or can it not be made so here?"""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skipped("needs root and unshare to mount a /dev/shm")
    made = inside(MOUNTS[where], ["true"])
    if made.returncode != 0:
        raise Skipped(f"no /dev/shm can be mounted here: {made.stderr.strip()}")
    size = inside(MOUNTS[where], ["sh", "-c", "test ! -d /dev/shm || echo $(( $(stat -f -c '%b * %S' /dev/shm) ))"])
    require(size.stdout == SEEN[where], f"/dev/shm {where} has '{size.stdout.strip()}' bytes: {size.stderr}")


def sums(options, where):
    check_possible(where)
    environment = {**os.environ, "FABRING_TRANSPORT": "shm"}
    commands = [f"loop steps=1 mapped={mapped} sizes={LONG}" for mapped in (0, 1)] + ["leave"]
    done = inside(MOUNTS[where], [cli(options), "run", "-n", "2", "--", options.program, *commands], environment)
    require(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}")


def main():
    options = arguments(__doc__, runs=1, transports="shm")
    run_cases([(f"a /dev/shm {where}", lambda where=where: sums(options, where)) for where in MOUNTS if options.only in where])


main()
