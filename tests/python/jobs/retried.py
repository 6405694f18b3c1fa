"""Ctrl-C while init() waits for the other rank, and init() again in the same process. `interrupted`: sends itself the signal as
soon as it meets, and says so; goes on, as the other one does from the beginning, when it gets a line. `outlives`, `leaves`: the same, but
what it goes on with is an init() once the first other one has met it and ended, or after shutdown(). The first other one `raises`,
is `killed`, or `returns` by shutdown() and init()."""

import os
import signal
import sys
import threading
import time

import numpy as np

import fabring
from fabring import meetings
from meeting import meets


def interrupt_the_meeting():
    while not meets():
        pass
    os.kill(os.getpid(), signal.SIGINT)


role = sys.argv[1]
interrupted = role in ("interrupted", "outlives", "leaves")
other_settings = {"FABRING_LEAVE_TIMEOUT": "3s"}
kept = None
if interrupted:
    threading.Thread(target=interrupt_the_meeting).start()
    try:
        fabring.init()
        raise SystemExit("came back")
    except KeyboardInterrupt as error:
        kept = error  # as a prompt does: its frames hold the meeting
        print("interrupted", flush=True)
sys.stdin.readline()
if role == "interrupted":
    try:
        fabring.init(other_settings)
        raise SystemExit("met twice")
    except fabring.InvalidArgumentError as error:
        assert "was interrupted" in str(error), error
    print("again", flush=True)
if role == "outlives":
    end = time.monotonic() + 20
    while not meetings._interrupted[0].meeting.spent and time.monotonic() < end:
        pass
if role == "leaves":
    while meets():  # until the other one is there
        pass
    fabring.shutdown()
world = fabring.init(other_settings if role == "leaves" else None)
print("met", flush=True)
if role == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if role == "raises":
    raise RuntimeError("to be mended")
if role == "returns":
    fabring.shutdown()
    world = fabring.init(other_settings)
assert (world.allreduce(np.ones(3)) == 2).all()
print("ok", flush=True)
