#!/usr/bin/env python3
"""What setup.sh, and the scripts that call it, do where there is no Debian, and with a build/venv of before: it may be a link to a
Python that has gone, or lack what is needed by now. Stand-ins note who calls them. Run: script_setup.py TOOLS_FOLDER"""
import os
import pathlib
import shutil
import sys
import tempfile

from stand_ins import run, stand_in

TOOLS = pathlib.Path(sys.argv[1])


def elsewhere(folder):
    """Where there is no apt-get it says so, and goes on where the packages are there by other means."""
    bare = folder / "bare"
    bare.mkdir()
    for name in ("bash", "dirname"):
        (bare / name).symlink_to(shutil.which(name))
    environment = {**os.environ, "PATH": str(bare), "SETUP_PYTHON": "none"}
    environment.pop("SETUP_PACKAGES", None)
    for script, more, code in (("setup.sh", {}, 3), ("test.sh", {}, 3), ("quickstart.sh", {}, 3), ("setup.sh", {"SETUP_PACKAGES": "none"}, 0)):
        ended = run([TOOLS / script], environment | more)
        if ended.returncode != code or ended.stdout or ("SETUP_PACKAGES=none" in ended.stderr and "libfmt-dev" in ended.stderr) != (code == 3):
            sys.exit(f"{script} without apt-get, {more}: ended with {ended.returncode}, said: {ended.stdout}{ended.stderr}")


def complete(folder):
    """Where all is there nothing is installed; what is asked or built with is called."""
    called = folder / "called"
    for name in ("sudo", "apt-get", "dpkg-query", "cmake", "ctest", "python3"):
        stand_in(folder / name, f"echo {name} >> {called}; echo install ok installed")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SETUP_PYTHON": "none"}
    environment.pop("SETUP_PACKAGES", None)
    for script, wanted in (("setup.sh", {"dpkg-query"}), ("test.sh", {"dpkg-query", "cmake", "ctest"})):
        called.write_text("")
        ended = run([TOOLS / script, "dev"], environment)
        calls = set(called.read_text().split())
        if ended.returncode != 0 or calls != wanted:
            sys.exit(f"{script} dev: ended with {ended.returncode}, called {calls}: {ended.stderr}")


def venv_of_before(root):
    """What is in build/venv is asked for each time."""
    called, python = root / "called", root / "build/venv/bin/python"
    for path in (root / "tools", python.parent):
        path.mkdir(parents=True)
    shutil.copy(TOOLS / "setup.sh", root / "tools")
    stand_in(root / "python3", f'echo "$*" >> {called}; exit 1')
    for marker in ("complete", "torch_complete"):
        (root / "build/venv" / marker).touch()
    environment = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}", "SETUP_PACKAGES": "none"}
    environment.pop("SETUP_PYTHON", None)
    for does, wanted in ((None, f"-m venv --clear {root}/tools/../build/venv"), ('test -z "$2"', f"-m venv {root}/tools/../build/venv"), ("true", "")):
        called.write_text("")
        python.unlink(missing_ok=True)
        if does is None:
            python.symlink_to("gone")
        else:
            stand_in(python, does)
        ended = run([root / "tools/setup.sh", "dev"], environment)
        if ended.returncode != 0 or called.read_text().strip() != wanted:
            sys.exit(f"setup.sh dev with build/venv/bin/python '{does}': ended with {ended.returncode}, called '{called.read_text()}', "
                     f"said: {ended.stdout}{ended.stderr}")


for case in (elsewhere, complete, venv_of_before):
    with tempfile.TemporaryDirectory() as folder:
        case(pathlib.Path(folder))
