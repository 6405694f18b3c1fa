#!/usr/bin/env python3
"""What every script of tools/ does with --help and with words that it does not know: it tells its own first lines and ends with 0,
or names the word on stderr and ends with 2, and nothing is installed, built, run or left behind. Stand-ins on the PATH, and for
the programs that scripts run, note who calls them. Run: script_words.py TOOLS_FOLDER"""
import os
import pathlib
import sys
import tempfile

from stand_ins import run, stand_in

tools = pathlib.Path(sys.argv[1])
STAND_INS = ("sudo", "apt-get", "dpkg-query", "cmake", "ctest", "program", "python3")
UNKNOWN = (["dve"], ["--dve"], ["--preset", "dev"])
# What a script does with a word that only it knows how to refuse, and how it ends.
MORE = {"matrix.sh": [(["allreduce", "ring"], 2)],
        "faults.sh": [(["--rans", "3"], 2), (["--simulated"], 2), (["--simulated", "0"], 2), (["--simulated", "3", "--sed", "7"], 2)],
        "fuzz.sh": [(["--runs"], 2), (["--runs", "3", "--help"], 0)],
        "large_counts.sh": [(["tcp", "shn"], 2), (["tcp", "--help"], 0)],
        "setup.sh": [(["dev", "tidy"], 2)]}
# What the message must have where it is not the first word.
NAMED = {("faults.sh", "--simulated", "3", "--sed", "7"): "--sed 7", ("large_counts.sh", "tcp", "shn"): "shn",
         ("setup.sh", "dev", "tidy"): "tidy"}
READS_WORDS_BY_PYTHON = "faults.sh"  # so for it there is no stand-in


def first_lines(script):
    """The comment at its head, which is its help."""
    lines = script.read_text().splitlines()[1:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return [line.removeprefix("#").removeprefix(" ") for line in lines[:end]]


def cases(script):
    yield from ((words, 0) for words in (["--help"], ["-h"]))
    for words in UNKNOWN:
        if script.name != "matrix.sh" or words != ["dve"]:  # there any word is a part of a test's name
            yield words, 2
    yield from MORE.get(script.name, ())


def faults(script, words, code, ended, calls, left):
    if ended.returncode != code:
        yield f"ended with {ended.returncode}, not {code}"
    if calls:
        yield f"called {calls}"
    if left:
        yield f"left {left}"
    if code == 0 and ended.stdout.splitlines() != first_lines(script):
        yield "did not tell its first lines"
    if code != 0 and (ended.stdout or NAMED.get((script.name, *words), words[0]) not in ended.stderr):
        yield "did not name the word on stderr only"


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    called, made = folder / "called", folder / "made"
    made.mkdir()
    python = pathlib.Path(sys.executable).resolve().parent
    for name in STAND_INS:
        stand_in(folder / name, f"echo {name} >> {called}; echo install ok installed")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(made), "SETUP_PYTHON": "none",
                   "PYTHONDONTWRITEBYTECODE": "1"}
    programs = ("FABRING_CLI", "FABRING_ENGINE_TEST", "FABRING_RANK_PROGRAM", "FABRING_TRANSFER_TEST")
    environment.update(dict.fromkeys(programs, str(folder / "program")))
    environment.pop("SETUP_PACKAGES", None)
    wrong = []
    scripts = sorted(tools.glob("*.sh"))
    for script in scripts:
        for words, code in cases(script):
            called.write_text("")
            path = str(python) + ":" if script.name == READS_WORDS_BY_PYTHON else ""
            ended = run([script, *words], {**environment, "PATH": path + environment["PATH"]})
            found = list(faults(script, words, code, ended, called.read_text().split(), [path.name for path in made.iterdir()]))
            if found:
                wrong.append(f"{script.name} {' '.join(words)}: {', '.join(found)}; it said: {ended.stdout}{ended.stderr}")
    gone = set(MORE) - {script.name for script in scripts}
    if gone:
        wrong.append(f"no such scripts: {gone}")
    if wrong:
        sys.exit("\n".join(wrong))
