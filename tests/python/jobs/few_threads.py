"""fabring.init() where the system gives no more threads."""

import pathlib
import signal
import sys

import numpy as np

import fabring

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from few_threads import few_threads  # noqa: E402

with few_threads():
    try:
        world = fabring.init()
        assert world.allreduce(np.ones(3)).tolist() == [1, 1, 1]
        print("works", flush=True)
    except fabring.UnavailableError as error:
        assert "ulimit -u" in str(error), error
        print("named the limit", flush=True)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
