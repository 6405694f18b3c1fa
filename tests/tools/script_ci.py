#!/usr/bin/env python3
"""`test.sh ci` insists on all tests: one that was skipped fails it where the machine could have run it, and nothing else; and so does a
label without tests. In a tree of its own, as setup.sh would fetch PyTorch. Run: script_ci.py TOOLS_FOLDER"""
import os
import pathlib
import shutil
import sys
import tempfile

from stand_ins import run, stand_in

TOOLS = pathlib.Path(sys.argv[1])
SKIPPED = "The following tests did not run:\\n\\t 1 - process: several hosts (Skipped)\\n"
HOSTS = """class NotPossible(Exception): pass
def check_possible():
    if {lacks}: raise NotPossible("needs root")
"""
STAND_INS = {
    "tools/setup.sh": "true",
    "setpriv": "true",
    "cmake": '[ "$1" = --build ] || printf -- "-- Python package: not tested: it lacks a thing\\n-- Configuring done\\n"',
    "ctest": 'case "$*" in *" -N -L ^python$") echo "Total Tests: $THERE"; exit ;; esac\nprintf "$SAID"; exit $CODE',
}


def make_tree(root):
    for file in ("tools/test.sh", "tests/tools/skips.py"):
        (root / file).parent.mkdir(parents=True)
        shutil.copy(TOOLS.parent / file, root / file)
    (root / "tests/process").mkdir()
    for name, does in STAND_INS.items():
        stand_in(root / name, does)


with tempfile.TemporaryDirectory() as folder:
    root, made = pathlib.Path(folder), pathlib.Path(folder) / "made"
    made.mkdir()
    make_tree(root)

    def test_sh(preset, lacks=False, **more):
        (root / "tests/process/hosts.py").write_text(HOSTS.format(lacks=lacks))
        environment = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}", "TMPDIR": str(made), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("SETUP_PYTHON", None)
        return run([root / "tools/test.sh", preset], environment | more)

    for preset, said, code, lacks, wanted in (("ci", "", 0, False, 0), ("ci", SKIPPED, 0, False, 1), ("ci", SKIPPED, 0, True, 0),
                                              ("ci", "", 8, False, 8), ("dev", SKIPPED, 0, False, 0), ("dev", "", 8, False, 8)):
        ended = test_sh(preset, lacks, THERE="5", SAID=said, CODE=str(code))
        if ended.returncode != wanted or ("several hosts" in ended.stderr) != (wanted == 1 or lacks) or list(made.iterdir()):
            sys.exit(f"test.sh {preset}, of which ctest said '{said}' and ended with {code}: ended with {ended.returncode}, left "
                     f"{list(made.iterdir())}, said: {ended.stderr}")
    for preset, more, wanted in (("ci", {}, 1), ("ci", {"SETUP_PYTHON": "none"}, 0), ("dev", {}, 0)):
        ended = test_sh(preset, THERE="0", SAID="", CODE="0", **more)
        if ended.returncode != wanted or ("has the label python" in ended.stderr) != bool(wanted) or "it lacks a thing" not in ended.stdout \
                or "Configuring" in ended.stdout or list(made.iterdir()):
            sys.exit(f"test.sh {preset} without a test of Python, {more}: ended with {ended.returncode}, said: {ended.stdout}{ended.stderr}")
