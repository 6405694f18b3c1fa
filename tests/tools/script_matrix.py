#!/usr/bin/env python3
"""What matrix.sh makes of the tests that it finds, by a stand-in for their program: a word that no test has in its name runs none,
and one that fails is told with what it said. Nothing is left behind. Run: script_matrix.py TOOLS_FOLDER"""
import os
import pathlib
import sys
import tempfile

from stand_ins import run, stand_in

script = pathlib.Path(sys.argv[1]) / "matrix.sh"
with tempfile.TemporaryDirectory() as folder:
    called, program, made = (pathlib.Path(folder) / name for name in ("called", "program", "made"))
    stand_in(program, f'''case $* in
  *list_tests*dve*) ;;
  *list_tests*) printf 'Matrix.\\n  broken\\n' ;;
  *) echo "$*" >> {called}; echo no sum; exit 1 ;;
esac''')
    made.mkdir()
    environment = {**os.environ, "FABRING_ENGINE_TEST": str(program), "TMPDIR": str(made)}
    for word, code, runs in (("dve", 3, False), ("broken", 1, True)):
        called.write_text("")
        ended = run([script, word], environment)
        text = ended.stderr if code > 1 else ended.stdout
        if ended.returncode != code or bool(called.read_text()) != runs or not text or list(made.iterdir()):
            sys.exit(f"matrix.sh {word}: ended with {ended.returncode}, ran '{called.read_text()}', left {list(made.iterdir())}, said: {text}")
