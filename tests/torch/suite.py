#!/usr/bin/env python3
"""Runs the distributed tests that come with PyTorch (torch.testing._internal.distributed.distributed_test) on a backend.

    suite.py [--backend fabring|gloo] [--ranks N] [--short] [--output F.json] [--against G.json] [PATTERN ...]

Tests that are for one backend by name run as if Fabring were that backend: Gloo's, and MPI's for alltoall. Ranks are forked
from a server that has imported torch, so that a test takes a second and not ten. --against compares with an earlier
run's --output and fails if that one passed something this one did not, or ran more tests.

Exit code: 0 all passed, 1 something failed, 3 could not run.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

# The children are started from this module too, so everything that shapes the tests is in the environment.
BACKEND = os.environ.get("SUITE_BACKEND", "fabring")  # the one that is tested
DRESS = os.environ.get("SUITE_DRESS", "gloo")  # the one whose tests these are

# Of these, the tests for MPI are wanted: no other backend runs them on CPU tensors.
FOR_MPI = ("test_all_to_all*",)
# What no backend outside of PyTorch can pass, and why.
IMPOSSIBLE = {
    "test_ddp_logging_data_cpu": "DDP's logging data call every backend that is not PyTorch's own 'custom'",
}
# What a commit's check runs: an operation of each kind, groups, DDP, a failure.
SHORT = (
    "test_all_gather", "test_all_gather_into_cat_tensor_cpu", "test_all_gather_coalesced_simple",
    "test_all_reduce_sum", "test_all_reduce_sum_async", "test_all_reduce_coalesced_sum", "test_all_reduce_result_cpu",
    "test_all_gather_object_subgroup", "test_barrier", "test_barrier_timeout_global", "test_broadcast",
    "test_broadcast_object_list", "test_ddp_hook_parity_powerSGD", "test_ddp_uneven_inputs", "test_gather",
    "test_get_future", "test_irecv", "test_isend_autograd_profiler", "test_monitored_barrier_gloo",
    "test_new_subgroups", "test_reduce_sum", "test_scatter", "test_send_recv", "test_send_recv_any_source",
    "test_DistributedDataParallelCPU_grad_is_view", "test_all_to_all_single_unequal_split", "test_all_to_all",
)


def import_tests():
    """distributed_test, as for DRESS; a test that needs what is not here is skipped before anything is started."""
    os.environ["BACKEND"] = DRESS
    import torch
    from torch.testing._internal import common_distributed

    if not torch.cuda.is_available():
        skipped = unittest.skip("needs CUDA")
        common_distributed.skip_if_no_gpu = skipped
        common_distributed.skip_if_lt_x_gpu = lambda count, *, allow_cpu=False: (lambda f: f) if allow_cpu else skipped
        common_distributed.require_n_gpus_for_nccl_backend = lambda count, backend: lambda f: f
    ranks = int(os.environ["WORLD_SIZE"])
    if ranks < 8:
        common_distributed.skip_if_small_worldsize = unittest.skip("needs 8 ranks")
    if ranks % 2 == 1:
        common_distributed.skip_if_odd_worldsize = unittest.skip("needs an even number of ranks")
    if BACKEND != DRESS:
        import fabring.torch  # noqa: F401

        for feature in common_distributed.DistTestCases.backend_feature.values():
            feature.add(BACKEND)
    from torch.testing._internal.distributed import distributed_test

    distributed_test.BACKEND = BACKEND
    return distributed_test


if __name__ == "suite":  # not as the main program, which the children run too
    import torch

    distributed_test = import_tests()

    def run_rank(environment, target, arguments, named):
        os.environ.update(environment)
        target(*arguments, **named)

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

        def _test_accumulate_gradients_no_sync(self, *arguments, **named):
            distributed_test.BACKEND = DRESS  # it makes its model for backends that it knows
            super()._test_accumulate_gradients_no_sync(*arguments, **named)

        def _spawn_processes(self):
            context = torch.multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["suite", "torch._dynamo"])
            # The server has the environment of its own start; setUp has changed ours since.
            environment = {name: os.environ[name] for name in ("TEMP_DIR", "INIT_METHOD")}

            def process(target, args, kwargs, name):
                return context.Process(target=run_rank, args=(environment, target, args, kwargs), name=name)

            self._start_processes(process)

    if BACKEND != DRESS:
        for name, reason in IMPOSSIBLE.items():
            setattr(Suite, name, unittest.skip(reason)(lambda self: None))
    Suite.__module__ = run_rank.__module__ = "suite"


class Outcomes(unittest.TextTestResult):
    """What became of each test: passed, skipped (and why) or failed (and how)."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.of = {}
        self.began = 0.0

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def note(self, test, outcome, text=""):
        name = test.id().rsplit(".", 1)[-1]
        self.of[name] = {"outcome": outcome, "text": text}
        if outcome != "skipped":
            print(f"{outcome:7} {time.monotonic() - self.began:6.1f} s  {name}", file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        self.note(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


def run_here(patterns: list[str], output: str) -> None:
    """The tests of one dress, in this process and its children."""
    import suite  # the name under which the children import it

    names = [n for n in unittest.TestLoader().getTestCaseNames(suite.Suite) if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    tests = unittest.TestSuite(suite.Suite(name) for name in names)
    outcomes = unittest.TextTestRunner(stream=io.StringIO(), resultclass=Outcomes).run(tests)
    pathlib.Path(output).write_text(json.dumps(outcomes.of))


def run_dress(dress: str, patterns: list[str], arguments: argparse.Namespace) -> dict:
    """In a process of its own: which tests there are is decided when they are imported."""
    import subprocess

    with tempfile.TemporaryDirectory() as temporary:
        (pathlib.Path(temporary) / "barrier").mkdir()
        (pathlib.Path(temporary) / "test_dir").mkdir()
        output = os.path.join(temporary, "outcomes.json")
        here = os.path.dirname(os.path.abspath(__file__))
        environment = dict(
            os.environ, WORLD_SIZE=str(arguments.ranks), TEMP_DIR=temporary, SUITE_BACKEND=arguments.backend,
            SUITE_DRESS=dress, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore",
            PYTHONPATH=os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, os.path.abspath(__file__), "--here", output, *patterns]
        with open(arguments.log, "ab") as log:
            done = subprocess.run(command, env=environment, stdout=log if not arguments.verbose else None, check=False)
        if not os.path.exists(output):
            print(f"the tests could not run (exit code {done.returncode}); see {arguments.log}", file=sys.stderr)
            sys.exit(3)
        return json.loads(pathlib.Path(output).read_text())


def compare(ours: dict, theirs: dict) -> list[str]:
    """What the other run passed and this one did not."""
    return sorted(n for n, t in theirs.items()
                  if t["outcome"] == "passed" and n not in IMPOSSIBLE and ours.get(n, {}).get("outcome") != "passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="fabring", choices=["fabring", "gloo"])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="about thirty tests, an operation of each kind")
    parser.add_argument("--output", help="what became of each test, as JSON")
    parser.add_argument("--against", help="the --output of a run to compare with")
    parser.add_argument("--log", default=os.devnull, help="what the tests themselves print")
    parser.add_argument("--verbose", action="store_true", help="... goes to the terminal")
    parser.add_argument("patterns", nargs="*", default=[])
    arguments = parser.parse_args()
    patterns = arguments.patterns or (list(SHORT) if arguments.short else ["*"])

    outcomes = run_dress("gloo", patterns, arguments)
    if arguments.backend != "gloo":  # Gloo has no list form of alltoall
        wanted = list(FOR_MPI) if patterns == ["*"] else [p for p in patterns if p.startswith("test_all_to_all")]
        if wanted:
            outcomes.update(run_dress("mpi", wanted, arguments))
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps(outcomes, indent=1, sort_keys=True))

    by_outcome = collections.Counter(o["outcome"] for o in outcomes.values())
    print(f"{arguments.backend}, {arguments.ranks} ranks: {by_outcome['passed']} passed, {by_outcome['failed']} failed, "
          f"{by_outcome['skipped']} skipped")
    reasons = collections.Counter(o["text"] for o in outcomes.values() if o["outcome"] == "skipped")
    for reason, count in reasons.most_common():
        print(f"  skipped {count:3}: {reason}")
    bad = sorted(n for n, o in outcomes.items() if o["outcome"] == "failed")
    for name in bad:
        print(f"FAILED {name}\n{outcomes[name]['text']}")
    if arguments.against:
        theirs = json.loads(pathlib.Path(arguments.against).read_text())
        worse = compare(outcomes, theirs)
        ran = [sum(o["outcome"] != "skipped" for o in run.values()) for run in (outcomes, theirs)]
        print(f"ran {ran[0]} tests, the other run {ran[1]}")
        for name in worse:
            print(f"PASSED THERE, NOT HERE: {name}")
        if worse or ran[0] < ran[1]:
            return 1
    return 1 if bad or not by_outcome["passed"] else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--here":
        run_here(sys.argv[3:], sys.argv[2])
    else:
        sys.exit(main())
