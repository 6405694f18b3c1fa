"""For jobs that do something while init() meets the other ranks."""

import pathlib


def meets():
    for thread in pathlib.Path("/proc/self/task").iterdir():
        try:
            if (thread / "comm").read_text() == "fabring-init\n":
                return True
        except OSError:  # it has ended
            pass
    return False
