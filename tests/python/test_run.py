"""`python -m fabring.run`: which words it hands to `fabring run`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CLEAN

from fabring import run

SOURCES = Path(__file__).parents[2] / "tools/fabring/launch"


@pytest.fixture
def handed_over(monkeypatch):
    """What the process would become, by the words it was started with."""
    def ask(line):
        became = []
        monkeypatch.setattr(sys, "argv", ["fabring.run", *line.split()])
        monkeypatch.setattr(os, "execv", lambda program, words: became.append(words))
        monkeypatch.setattr(sys, "executable", "PYTHON")
        run.main()
        assert became[0][:2] == [run.path(), "run"]
        return " ".join(became[0][2:])
    return ask


@pytest.mark.parametrize("line", ["-n 4 python -u train.py", "-n 4 -- python -u train.py", "-n 4 nsys profile train.py",
                                  "-n 4 ./app --config x.py", "-np 4 --tag-output ./app x.py", "-n4 ./app x.py",
                                  "-n 4 ./app -- x.py", "-n 4", "--help", "-n 4 --", "-n 4 -x FILE=x.py ./app",
                                  "-n 4 --hostfile hosts.py ./app", "-n 4 sh -c x.py", ""])
def test_other_programs_are_what_they_are(handed_over, line):
    assert handed_over(line) == line


@pytest.mark.parametrize("line, handed", [
    ("-n 4 train.py --lr 3", "-n 4 -- PYTHON train.py --lr 3"),
    ("-n 4 train.py -- --lr 3", "-n 4 -- PYTHON train.py -- --lr 3"),
    ("-n 4 -- train.py --lr 3", "-n 4 -- PYTHON train.py --lr 3"),
    ("-n 4 -- -m package.train", "-n 4 -- PYTHON -m package.train"),
    ("-n4 train.py", "-n4 -- PYTHON train.py"),
    ("--np=4 --tag-output train.py x.py", "--np=4 --tag-output -- PYTHON train.py x.py"),
    ("-np 4 -H a:2,b:2 -x A -x B=c.py --verbose train.py", "-np 4 -H a:2,b:2 -x A -x B=c.py --verbose -- PYTHON train.py"),
    ("-np 4 -hostfile h.py --gloo --cycle-time-ms 5 train.py", "-np 4 -hostfile h.py --gloo --cycle-time-ms 5 -- PYTHON train.py"),
])
def test_a_script_runs_in_this_python(handed_over, line, handed):
    assert handed_over(line) == handed


def test_a_package_without_the_command_does_not_start_its_own_script_again(tmp_path):
    package, scripts, program = tmp_path / "fabring", tmp_path / "scripts", tmp_path / "program"
    for folder in (package, scripts, program):
        folder.mkdir()
    for file in Path(run.__file__).parent.iterdir():
        if file.name not in ("bin", "torch", "__pycache__"):
            (package / file.name).symlink_to(file.resolve())
    script = scripts / "fabring"  # as pip writes it
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom fabring.run import command\nif __name__ == '__main__':\n    sys.exit(command())\n")
    script.chmod(0o755)
    environment = {**CLEAN, "PYTHONPATH": str(tmp_path), "PATH": f"{scripts}:{program}", "PYTHONDONTWRITEBYTECODE": "1"}

    def started(*words):
        return subprocess.run(words, env=environment, timeout=30, capture_output=True, text=True)

    for words in ((script, "--version"), (sys.executable, "-m", "fabring.run", "-n", "2", "x.py")):
        ended = started(*words)
        assert ended.returncode == 1 and "without the command (FABRING_BUILD_TOOLS=OFF)" in ended.stderr, ended
    (program / "fabring").write_text("#!/bin/sh\necho another: $*\n")
    (program / "fabring").chmod(0o755)
    assert started(script, "--version").stdout == "another: --version\n"


def test_the_options_without_a_value_are_those_of_the_command():
    text = subprocess.run([run.path(), "run", "--help"], env=CLEAN, capture_output=True, text=True, timeout=60).stdout
    flags, others = set(), set()
    for names, kind in re.findall(r"^ +(-[-\w]+(?:, ?-[-\w]+)*)( [A-Za-z]\S*)?", text, re.M):
        (others if kind else flags).update(re.split(", ?", names))
    assert {"--tag-output", "--verbose"} <= flags and {"-n", "--hosts"} <= others, text
    assert flags <= run.FLAGS and not others & run.FLAGS
    hidden = re.search(r"flags_without_meaning\[\] = \{(.*?)\}", (SOURCES / "horovod_options.cpp").read_text(), re.S)
    assert set(re.findall(r'"(.+?)"', hidden[1])) <= run.FLAGS
