"""What tests of scripts put in the place of programs."""
import subprocess


def stand_in(path, does):
    """A program there that does this, in the words of sh."""
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def run(words, environment):
    return subprocess.run(words, env=environment, timeout=60, capture_output=True, text=True)
