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
    found = shutil.which("fabring")
    if found is None:
        sys.exit("fabring: the command was not built with this package (it needs CLI11 and nlohmann-json), and there is none "
                 "on the PATH")
    return found


def command() -> None:
    """The console script: becomes the command."""
    program = path()
    os.execv(program, [program, *sys.argv[1:]])


def main() -> None:
    """Everything as for `fabring run`; a program that ends in .py, or -m MODULE after --, runs in this Python."""
    program = path()
    words = sys.argv[1:]
    try:
        first: int | None = words.index("--") + 1
    except ValueError:
        first = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
        if first and Path(words[first - 1]).name.startswith("python"):
            first = None  # the script's Python is named
    if first is not None and first < len(words) and (words[first].endswith(".py") or words[first] in ("-m", "-c")):
        before = words[:first] if words[:first][-1:] == ["--"] else [*words[:first], "--"]
        words = [*before, sys.executable, *words[first:]]
    os.execv(program, [program, "run", *words])


if __name__ == "__main__":
    main()
