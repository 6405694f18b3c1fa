#!/usr/bin/env python3
"""What faults.sh --simulated makes of the tests that draw faults, by a stand-in for their programs: each runs with the seeds that
were asked for, what they drew is added up, one that fails is told with what it said and how it is run again, and a suite that
is gone is missed. Nothing is left behind. Run: script_faults.py TOOLS_FOLDER"""
import os
import pathlib
import sys
import tempfile

from stand_ins import run, stand_in

script = pathlib.Path(sys.argv[1]) / "faults.sh"
PATTERNS = 16
with tempfile.TemporaryDirectory() as folder:
    called, program, made = (pathlib.Path(folder) / name for name in ("called", "program", "made"))
    stand_in(program, f'''case "$GONE $FABRING_TEST_SEED$*" in
  Hostile*list_tests*Hostile*) ;;
  *list_tests*) name=${{2#*=}}; printf '%s.\\n  drawn  # GetParam() = 3\\n' "${{name%%.*}}" ;;
  "Cut --gtest_filter=Cut"*) echo "$*" >> {called}; echo no name; exit 1 ;;
  *" --gtest_filter="*) echo "$*" >> {called}; echo "$FABRING_TEST_SEEDS seeds from $FABRING_TEST_FIRST_SEED" ;;
esac''')
    made.mkdir()
    environment = {**os.environ, "FABRING_ENGINE_TEST": str(program), "FABRING_TRANSFER_TEST": str(program), "TMPDIR": str(made),
                   "FABRING_TEST_SEED": "1"}
    seed = 3_000_000_007
    drew = f"simulated faults of seeds {seed} to {seed + 29}"
    again = f"FABRING_TEST_FIRST_SEED={seed} FABRING_TEST_SEEDS=30 {program} --gtest_filter=Cut.drawn"
    for gone, code, runs, words in (
            ("", 0, PATTERNS, ["ok      Hostile.drawn: 30 seeds", f"{30 * PATTERNS} {drew}, 0 tests failed"]),
            ("Cut", 1, PATTERNS, ["FAILED  Cut.drawn", "no name", again, f"{30 * (PATTERNS - 1)} {drew}, 1 tests failed"]),
            ("Hostile", 3, 0, [f"{program} has no test Hostile.*"])):
        called.write_text("")
        ended = run([script, "--simulated", "30", "--seed", str(seed)], {**environment, "GONE": gone})
        text = ended.stdout + ended.stderr
        times = len(called.read_text().splitlines())
        if ended.returncode != code or times != runs or list(made.iterdir()) or not all(word in text for word in words):
            sys.exit(f"with '{gone}': ended with {ended.returncode}, ran {times}, left {list(made.iterdir())}, said: {text}")
