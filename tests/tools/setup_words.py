#!/usr/bin/env python3
"""What tools/test.sh, setup.sh and quickstart.sh do with a word that they do not know, and with --help: nothing is installed or
built. Stand-ins on the PATH note who calls them. Run: setup_words.py TOOLS_FOLDER"""
import os
import pathlib
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
