"""Runs a job of real processes through our own launcher and looks at what it said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"
LIMIT_S = 120
# A number of a rank or an address of the caller's would win over the launcher's.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("FABRING_")}


class Done:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def launch(ranks, script, *arguments, environment=None, options=(), limit_s=LIMIT_S, python=sys.executable):
    """`python -m fabring.run -n RANKS script`; a job that does not end in time is ended by the launcher's INT."""
    command = [python, "-m", "fabring.run", "-n", str(ranks), "--grace", "20s", *options, str(JOBS / script), *arguments]
    job = subprocess.Popen(command, env={**CLEAN, "FABRING_TIMEOUT": "60s", **(environment or {})}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = job.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        job.terminate()
        out, err = job.communicate(timeout=30)
        pytest.fail(f"{script} did not end in {limit_s} s\n{out}\n{err}")
    return Done(job.returncode, out, err)


def fine(ranks, script, *arguments, **more):
    done = launch(ranks, script, *arguments, **more)
    assert done.code == 0, str(done)
    return done
