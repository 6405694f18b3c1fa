"""Ctrl-C while init() waits for the other rank, and init() again in the same process. `interrupted`: sends itself the signal as
soon as it meets, and says so; goes on, as the other one does from the beginning, when it gets a line."""

import os
import pathlib
import signal
import sys
import threading

import numpy as np

import fabring


def meets():
    for thread in pathlib.Path("/proc/self/task").iterdir():
        try:
            if (thread / "comm").read_text() == "fabring-init\n":
                return True
        except OSError:  # it has ended
            pass
    return False


def interrupt_the_meeting():
    while not meets():
        pass
    os.kill(os.getpid(), signal.SIGINT)


interrupted = sys.argv[1] == "interrupted"
if interrupted:
    threading.Thread(target=interrupt_the_meeting).start()
    try:
        fabring.init()
        raise SystemExit("came back")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
sys.stdin.readline()
if interrupted:
    try:
        fabring.init({"FABRING_LEAVE_TIMEOUT": "3s"})
        raise SystemExit("met twice")
    except fabring.InvalidArgumentError as error:
        assert "was interrupted" in str(error), error
    print("again", flush=True)
world = fabring.init()
print("met", flush=True)
assert (world.allreduce(np.ones(3)) == 2).all()
print("ok", flush=True)
