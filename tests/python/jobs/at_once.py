"""Threads that call init() at once. `met`, `settings`: all get the one communicator. `alone`: of rank 0 of two, of which the other never comes: a
thread that waits for another's init() can be interrupted, a fork made meanwhile is told whose rank it is, and may be another one, and
all hear the one failure."""

import os
import signal
import sys
import threading

import fabring
from meeting import meets


def waits(thread):
    """Whether it waits for another thread's init()."""
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code.co_name == "_wait_for":
            return True
        frame = frame.f_back
    return False


def init():
    start.wait()
    try:
        got.append(fabring.init(settings))
    except fabring.Error as error:
        got.append(error)


def interrupt_main():
    while not waits(threading.main_thread()):
        pass
    os.kill(os.getpid(), signal.SIGINT)


def in_main():
    interrupter = threading.Thread(target=interrupt_main)
    interrupter.start()
    try:
        fabring.init()
        raise SystemExit("came back")
    except KeyboardInterrupt:
        interrupter.join()


def in_fork():
    try:
        fabring.init()
        return 1
    except fabring.InvalidArgumentError as error:
        if "fork" not in str(error):
            return 2
    return 0 if fabring.init({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}, environment=False).size == 1 else 3


got = []
settings = {"FABRING_TIMEOUT": "30s"} if sys.argv[1] == "settings" else None
count = 4
start = threading.Barrier(count)
threads = [threading.Thread(target=init) for _ in range(count)]
for thread in threads:
    thread.start()
if sys.argv[1] == "alone":
    while not meets() or sum(map(waits, threads)) < count - 1:
        pass
    in_main()
    child = os.fork()
    if child == 0:
        os._exit(in_fork())
    assert os.waitpid(child, 0)[1] == 0
for thread in threads:
    thread.join()
assert len(got) == count and len(set(map(id, got))) == 1, got
if sys.argv[1] != "alone":
    assert got[0].allreduce(1) == got[0].size and fabring.init() is got[0]
else:
    assert isinstance(got[0], fabring.TimeoutError), got
print("ok", flush=True)
