#!/usr/bin/env python3
"""What a user reads when there is no GPU, none is shown, or one fails: one clear error on every rank, bounded in time."""
import argparse
import os
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabring", required=True)
    parser.add_argument("--fake", required=True)
    parser.add_argument("--fabric", action="store_true", help="libfabric is built in")
    options = parser.parse_args()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FABRING_")}
    faked = dict(clean, LD_LIBRARY_PATH=options.fake + ":" + clean.get("LD_LIBRARY_PATH", ""))

    def perf(environment, *arguments):
        command = [options.fabring, "perf", "allreduce", "-n", "3", "--memory", "cuda", "--sizes", "100K", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def expect(what, run, code, *words):
        text = run.stdout + run.stderr
        for word in words:
            if word not in text or run.returncode != code:
                print(f"{what}: exit code {run.returncode}, wanted {code} and '{word}' in:\n{text}")
                return False
        print(f"ok  {what}")
        return True

    good = expect("no GPU is shown", perf(dict(faked, FAKE_CUDA_DEVICES="0")), 3, "no GPU", "finds none")
    if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], env=clean,
                      capture_output=True).returncode != 0:
        good &= expect("no driver", perf(clean), 3, "no GPU", "libcuda.so.1 cannot be loaded")
    for transport in ("shm", "tcp"):
        run = perf(dict(faked, FAKE_CUDA_FAIL_AFTER="9"), "--transport", transport)
        good &= expect(f"a GPU fails ({transport})", run, 3, "device_error", "CUDA_ERROR_ILLEGAL_ADDRESS", "allreduce")
    if options.fabric:
        run = perf(faked, "--transport", "fabric", "--explain")
        good &= expect("which way GPU memory takes, and why", run, 0, "GPU memory that is sent: through pinned memory of the host: ",
                       "cannot take GPU memory: no FI_HMEM")
    # 3 ranks on 2 GPUs, by what the driver says of MPS.
    turns = "3 ranks share 2 GPUs and take turns on them"
    good &= expect("ranks that share GPUs take turns", perf(dict(faked, FAKE_CUDA_MPS="0")), 0, turns)
    for environment in (dict(faked, FAKE_CUDA_MPS="1"), faked, dict(faked, FAKE_CUDA_MPS="0", FAKE_CUDA_DEVICES="3")):
        if turns[:13] in perf(environment).stdout:
            print(f"says that ranks take turns with {environment}")
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
