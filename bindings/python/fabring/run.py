"""`python -m fabring.run -n 4 script.py`: the command `fabring run` with this Python in front of the script. The console
script `fabring` is the whole command."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def path() -> str:
    """Where the command is: in the package, or else on the PATH."""
    packaged = Path(__file__).parent / "bin" / "fabring"
    if os.access(packaged, os.X_OK):
        return str(packaged)
    found = next(filter(_is_the_command, map(_in_folder, os.get_exec_path())), None)
    if found is None:
        sys.exit("fabring: this package was built without the command (FABRING_BUILD_TOOLS=OFF), and there is none on the PATH; "
                 "build it with that ON")
    return found


def _in_folder(folder: str) -> str | None:
    return shutil.which("fabring", path=folder)


def _is_the_command(file: str | None) -> bool:
    """Not a console script of this package: that comes here, and would start itself for ever."""
    if file is None:
        return False
    with open(file, "rb") as script:
        return b"fabring.run" not in script.read(4096)


def command() -> None:
    """The console script: becomes the command."""
    program = path()
    os.execv(program, [program, *sys.argv[1:]])


def main() -> None:
    """Everything as for `fabring run`; a program whose first word ends in .py, or -m MODULE after --, runs in this Python."""
    program = path()
    os.execv(program, [program, "run", *with_python(sys.argv[1:], sys.executable)])


def with_python(words: list[str], python: str) -> list[str]:
    """The words for `fabring run`, with `python` in front of a program that needs one. Other programs, `python -u train.py` and
    `nsys profile train.py` among them, are what they are."""
    at = _program(words)
    dashes = words[at - 1:at] == ["--"]
    if words[at:at + 1] and (words[at].endswith(".py") or dashes and words[at] in ("-m", "-c")):
        return [*words[:at], *([] if dashes else ["--"]), python, *words[at:]]
    return words


def _program(words: list[str]) -> int:
    """Where it begins: behind --, or at the first word that is no option and no option's value."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 1 if _stands_alone(words[at]) else 2
    return at + (words[at:at + 1] == ["--"])


def _stands_alone(option: str) -> bool:
    """Whether no value follows: there is none, or it is in the same word, as in --np=4 and -n4."""
    attached = len(option) > 2 and option[1] in "nHxpi" and option != "-np"
    return "=" in option or option in FLAGS or attached


# Options of `fabring run` that have no value.
FLAGS = {"--help", "-h", "--json", "--explain", "--strict", "--tag-output", "--timestamp-output",
         "--prefix-output-with-timestamp", "-prefix-timestamp", "--timeline-mark-cycles", "--no-timeline-mark-cycles",
         "--verbose", "--gloo", "--mpi", "--jsrun", "--tcp", "--check-build", "-cb", "--disable-cache", "--autotune", "--no-autotune", "--hierarchical-allreduce",
         "--no-hierarchical-allreduce", "--hierarchical-allgather", "--no-hierarchical-allgather", "--torus-allreduce",
         "--no-torus-allreduce", "--stall-check", "--no-stall-check", "--mpi-threads-disable", "--no-mpi-threads-disable",
         "--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp", "--no-log-hide-timestamp"}


if __name__ == "__main__":
    main()
