#!/usr/bin/env python3
"""What setup.sh does where there is no Debian, or a build/venv of before; that `test.sh ci` insists on all tests; and what
matrix.sh makes of the tests that it finds. Stand-ins on the PATH note who calls them.
Run: setup_words.py TOOLS_FOLDER"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

tools = pathlib.Path(sys.argv[1])
stand_ins = ("sudo", "apt-get", "dpkg-query", "cmake", "ctest", "python3")
with tempfile.TemporaryDirectory() as folder:
    called = pathlib.Path(folder) / "called"
    for name in stand_ins:
        path = pathlib.Path(folder) / name
        path.write_text(f'#!/bin/sh\necho {name} >> {called}\necho install ok installed\n')
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SETUP_PYTHON": "none"}
    environment.pop("SETUP_PACKAGES", None)

    def run(script, *words):
        called.write_text("")
        ended = subprocess.run([tools / script, *words], env=environment, timeout=60, capture_output=True, text=True)
        return ended, set(called.read_text().split())

    # Elsewhere than on Debian it says so, and goes on where the packages are there by other means.
    bare = pathlib.Path(folder) / "bare"
    bare.mkdir()
    for name in ("bash", "dirname"):
        (bare / name).symlink_to(shutil.which(name))
    elsewhere = {**environment, "PATH": str(bare)}
    for script, more, code in (("setup.sh", {}, 3), ("test.sh", {}, 3), ("quickstart.sh", {}, 3), ("setup.sh", {"SETUP_PACKAGES": "none"}, 0)):
        ended = subprocess.run([tools / script], env=elsewhere | more, timeout=60, capture_output=True, text=True)
        if ended.returncode != code or ended.stdout or ("SETUP_PACKAGES=none" in ended.stderr and "libfmt-dev" in ended.stderr) != (code == 3):
            sys.exit(f"{script} without apt-get, {more}: ended with {ended.returncode}, said: {ended.stdout}{ended.stderr}")
    # That the stand-ins would be called.
    for script, calls_of in (("setup.sh", {"dpkg-query"}), ("test.sh", {"dpkg-query", "cmake", "ctest"})):
        ended, calls = run(script, "dev")
        if ended.returncode != 0 or calls != calls_of:
            sys.exit(f"{script} dev: ended with {ended.returncode}, called {calls}: {ended.stderr}")

# What is in build/venv is asked for each time: it may be a link to a Python that has gone, or lack what is needed by now.
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    called, python = root / "called", root / "build/venv/bin/python"
    for path in (root / "tools", python.parent):
        path.mkdir(parents=True)
    shutil.copy(tools / "setup.sh", root / "tools")
    (root / "python3").write_text(f'#!/bin/sh\necho "$*" >> {called}\nexit 1\n')
    (root / "python3").chmod(0o755)
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
            python.write_text(f"#!/bin/sh\n{does}\n")
            python.chmod(0o755)
        ended = subprocess.run([root / "tools/setup.sh", "dev"], env=environment, timeout=60, capture_output=True, text=True)
        if ended.returncode != 0 or called.read_text().strip() != wanted:
            sys.exit(f"setup.sh dev with build/venv/bin/python '{does}': ended with {ended.returncode}, called '{called.read_text()}', "
                     f"said: {ended.stdout}{ended.stderr}")

# A test that was skipped fails `ci` where the machine could have run it, and nothing else. In a tree of its own, as setup.sh would
# fetch PyTorch.
HOSTS = """class NotPossible(Exception): pass
def check_possible():
    if {lacks}: raise NotPossible("needs root")
"""
with tempfile.TemporaryDirectory() as folder:
    root, made = pathlib.Path(folder), pathlib.Path(folder) / "made"
    for file in ("tools/test.sh", "tests/tools/skips.py"):
        (root / file).parent.mkdir(parents=True)
        shutil.copy(tools.parent / file, root / file)
    made.mkdir()
    (root / "tests/process").mkdir()
    skip = "The following tests did not run:\\n\\t 1 - process: several hosts (Skipped)\\n"
    counts = 'case "$*" in *" -N -L ^python$") echo "Total Tests: $THERE"; exit ;; esac\n'
    configures = '[ "$1" = --build ] || printf -- "-- Python package: not tested: it lacks a thing\\n-- Configuring done\\n"'
    for name, does in (("tools/setup.sh", "true"), ("cmake", configures), ("ctest", counts + 'printf "$SAID"; exit $CODE'), ("setpriv", "true")):
        (root / name).write_text(f"#!/bin/sh\n{does}\n")
        (root / name).chmod(0o755)
    cases = [("ci", "", 0, 0), ("ci", skip, 0, 1), ("ci", skip, 0, 0), ("ci", "", 8, 8), ("dev", skip, 0, 0), ("dev", "", 8, 8)]
    for number, (preset, said, code, wanted) in enumerate(cases):  # of Python there are tests
        lacks = number == 2
        (root / "tests/process/hosts.py").write_text(HOSTS.format(lacks=lacks))
        environment = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}", "TMPDIR": str(made), "SAID": said, "CODE": str(code),
                       "THERE": "5", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("SETUP_PYTHON", None)
        ended = subprocess.run([root / "tools/test.sh", preset], env=environment, timeout=60, capture_output=True, text=True)
        if ended.returncode != wanted or ("several hosts" in ended.stderr) != (wanted == 1 or lacks) or list(made.iterdir()):
            sys.exit(f"test.sh {preset}, of which ctest said '{said}' and ended with {code}: ended with {ended.returncode}, left "
                     f"{list(made.iterdir())}, said: {ended.stderr}")
    for preset, python, wanted in (("ci", "", 1), ("ci", "none", 0), ("dev", "", 0)):  # of Python there are none
        environment.update(THERE="0", SAID="", CODE="0", SETUP_PYTHON=python)
        ended = subprocess.run([root / "tools/test.sh", preset], env=environment, timeout=60, capture_output=True, text=True)
        if ended.returncode != wanted or ("has the label python" in ended.stderr) != bool(wanted) or "it lacks a thing" not in ended.stdout \
                or "Configuring" in ended.stdout or list(made.iterdir()):
            sys.exit(f"test.sh {preset} without a test of Python, SETUP_PYTHON={python}: ended with {ended.returncode}, said: {ended.stdout}{ended.stderr}")

# A stand-in for the program of tests that matrix.sh runs: it has one, which fails.
with tempfile.TemporaryDirectory() as folder:
    called, program, made = (pathlib.Path(folder) / name for name in ("called", "program", "made"))
    program.write_text(f'''#!/bin/sh
case $* in
  *list_tests*dve*) ;;
  *list_tests*) printf 'Matrix.\\n  broken\\n' ;;
  *) echo "$*" >> {called}; echo no sum; exit 1 ;;
esac
''')
    program.chmod(0o755)
    made.mkdir()
    environment = {**os.environ, "FABRING_ENGINE_TEST": str(program), "TMPDIR": str(made)}
    for words, code, runs in ((["dve"], 3, False), (["broken"], 1, True)):
        called.write_text("")
        ended = subprocess.run([tools / "matrix.sh", *words], env=environment, timeout=60, capture_output=True, text=True)
        text = ended.stderr if code > 1 else ended.stdout
        if ended.returncode != code or bool(called.read_text()) != runs or not text or list(made.iterdir()):
            sys.exit(f"matrix.sh {words}: ended with {ended.returncode}, ran '{called.read_text()}', left {list(made.iterdir())}, "
                     f"said: {text}")
