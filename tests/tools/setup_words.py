#!/usr/bin/env python3
"""What tools/test.sh, setup.sh and quickstart.sh do with a word that they do not know, and with --help: nothing is installed or
built; nor do matrix.sh and faults.sh run anything, or leave anything behind. And that `test.sh ci` insists on all tests. Stand-ins on the PATH note who calls them.
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

    def run(script, *words):
        called.write_text("")
        ended = subprocess.run([tools / script, *words], env=environment, timeout=60, capture_output=True, text=True)
        return ended, set(called.read_text().split())

    for script in ("test.sh", "setup.sh", "quickstart.sh"):
        for words, code in ((["--help"], 0), (["-h"], 0), (["dve"], 2), (["--preset", "dev"], 2)):
            ended, calls = run(script, *words)
            text = ended.stdout if code == 0 else ended.stderr
            if ended.returncode != code or calls or not text:
                sys.exit(f"{script} {words}: ended with {ended.returncode}, called {calls or 'nothing'}, said: {text}")
    # That the stand-ins would be called.
    for script, calls_of in (("setup.sh", {"dpkg-query"}), ("test.sh", {"dpkg-query", "cmake", "ctest"})):
        ended, calls = run(script, "dev")
        if ended.returncode != 0 or calls != calls_of:
            sys.exit(f"{script} dev: ended with {ended.returncode}, called {calls}: {ended.stderr}")

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
    for name, does in (("tools/setup.sh", "true"), ("cmake", "true"), ("ctest", 'printf "$SAID"; exit $CODE'), ("setpriv", "true")):
        (root / name).write_text(f"#!/bin/sh\n{does}\n")
        (root / name).chmod(0o755)
    cases = [("ci", "", 0, 0), ("ci", skip, 0, 1), ("ci", skip, 0, 0), ("ci", "", 8, 8), ("dev", skip, 0, 0), ("dev", "", 8, 8)]
    for number, (preset, said, code, wanted) in enumerate(cases):
        lacks = number == 2
        (root / "tests/process/hosts.py").write_text(HOSTS.format(lacks=lacks))
        environment = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}", "TMPDIR": str(made), "SAID": said, "CODE": str(code),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run([root / "tools/test.sh", preset], env=environment, timeout=60, capture_output=True, text=True)
        if ended.returncode != wanted or ("several hosts" in ended.stderr) != (wanted == 1 or lacks) or list(made.iterdir()):
            sys.exit(f"test.sh {preset}, of which ctest said '{said}' and ended with {code}: ended with {ended.returncode}, left "
                     f"{list(made.iterdir())}, said: {ended.stderr}")

# Stand-ins for what matrix.sh and faults.sh run. The one of tests has one, which fails.
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
    environment = {**os.environ, "FABRING_ENGINE_TEST": str(program), "FABRING_RANK_PROGRAM": str(program), "TMPDIR": str(made)}
    for script, words, code, runs in (("matrix.sh", ["--help"], 0, False), ("faults.sh", ["--help"], 0, False),
                                      ("matrix.sh", ["dve"], 3, False), ("matrix.sh", ["allreduce", "ring"], 2, False),
                                      ("faults.sh", ["dve"], 2, False), ("faults.sh", ["--rans", "3"], 2, False),
                                      ("matrix.sh", ["broken"], 1, True)):
        called.write_text("")
        ended = subprocess.run([tools / script, *words], env=environment, timeout=60, capture_output=True, text=True)
        text = ended.stderr if code > 1 else ended.stdout
        if ended.returncode != code or bool(called.read_text()) != runs or not text or list(made.iterdir()):
            sys.exit(f"{script} {words}: ended with {ended.returncode}, ran '{called.read_text()}', left {list(made.iterdir())}, "
                     f"said: {text}")
