"""Programs as people start them: the examples, torchrun with restarts, the end of a process."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
GPU = HERE.parent / "gpu"
EXAMPLES = HERE.parent.parent / "examples" / "pytorch"


def start(ranks, *command, **environment):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, text=True, timeout=240)


def torchrun(ranks, *command, **environment):
    started = start(ranks, *command, **environment)
    assert started.returncode == 0, started.stdout + started.stderr
    return started.stdout + started.stderr


def test_digits_with_ddp():
    text = torchrun(4, EXAMPLES / "ddp_digits.py", "--epochs", "3")
    assert "fabring, 4 ranks" in text and "largest difference to a single process" in text


def test_text_with_fsdp2():
    text = torchrun(4, EXAMPLES / "fsdp_text.py", "--steps", "25", "--blocks", "2")
    assert "fabring, 4 ranks" in text and "largest difference to a single process" in text


def test_text_that_is_not_learnt_fails():
    started = start(2, EXAMPLES / "fsdp_text.py", "--steps", "2", "--blocks", "1", "--rate", "inf")
    assert started.returncode != 0 and "-> nan" in started.stdout, started.stdout + started.stderr


def test_what_runs_on_a_gpu_runs_on_the_host():
    """The same programs as tests/gpu/run.sh, whose gradients are those of the same training alone."""
    assert "DDP on 3 ranks (cpu)" in torchrun(3, GPU / "ddp.py", "--device", "cpu")
    text = torchrun(4, GPU / "fsdp.py", "--device", "cpu")
    for what in ("float32", "asynchronous all-gathers", "a divisor of its own", "bfloat16, reduced in it", "replicas of shards"):
        assert f"FSDP2 on 4 ranks (cpu), {what}: at most" in text, text


def test_torchrun_starts_again_after_a_killed_worker():
    text = torchrun(3, "--max-restarts", "1", HERE / "jobs" / "restarted.py")
    assert text.count("sum of the second life: 6") == 1, text
    assert "exitcode: -9" in text and "peer_lost" in text, text


@pytest.mark.parametrize("victim, before", [(1, "init"), (0, "init"), (2, "group"), (1, "group")])
def test_torchrun_starts_again_after_a_worker_that_died_while_the_others_waited_for_it(tmp_path, victim, before):
    """In init_process_group or in a later new_group, of which 1 is the first."""
    began = time.monotonic()
    text = torchrun(3, "--max-restarts", "1", HERE / "jobs" / "dies_early.py", tmp_path, victim, before)
    assert text.count("sum of the second life: 18") == 1, text
    assert time.monotonic() - began < 60, "far less than the timeout of a group"


def test_a_process_that_just_ends():
    text = torchrun(2, HERE / "jobs" / "just_ends.py")
    assert "died" not in text and "rror" not in text.replace("ChildFailedError", ""), text


@pytest.mark.parametrize("destroy", ["destroy", "keep"])
def test_a_last_send_arrives_though_its_program_ends(destroy):
    assert "received 5000000" in torchrun(2, HERE / "jobs" / "last_send.py", destroy)


def fabring_run(ranks, script, *launcher, **environment):
    import fabring

    command = pathlib.Path(fabring.__file__).parent / "bin" / "fabring"
    if not command.exists():
        pytest.skip("the fabring command is not built")
    return subprocess.run([command, "run", "-n", str(ranks), "--grace", "20s", "--", sys.executable, *launcher, HERE / "jobs" / script],
                          env={**os.environ, **environment}, capture_output=True, text=True, timeout=240)


def test_fabring_run_is_a_launcher_too():
    started = fabring_run(2, "just_ends.py")
    assert started.returncode == 0 and "2 ranks" in started.stdout, started.stdout + started.stderr


def test_fabring_run_says_who_a_rank_is_also_where_another_launcher_did():
    started = fabring_run(2, "who.py", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="192.0.2.1", MASTER_PORT="1")
    assert started.returncode == 0 and "2 ranks" in started.stdout, started.stdout + started.stderr
    assert all(f"rank {rank} is local rank {rank}" in started.stdout for rank in (0, 1)), started.stdout


def test_a_torchrun_below_fabring_run_says_who_its_workers_are():
    started = fabring_run(1, "who.py", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert started.returncode == 0 and "2 ranks" in started.stdout, started.stdout + started.stderr
    assert all(f"rank {rank} is local rank {rank}" in started.stdout for rank in (0, 1)), started.stdout


def test_any_launcher_below_fabring_run_says_who_its_workers_are():
    started = fabring_run(1, "starts_workers.py")
    assert started.returncode == 0 and "2 ranks" in started.stdout, started.stdout + started.stderr
    assert all(f"rank {rank} is local rank {rank}" in started.stdout for rank in (0, 1)), started.stdout


def test_fabring_run_below_a_torchrun_says_who_its_ranks_are():
    started = fabring_run(2, "who.py", RANK="0", WORLD_SIZE="1", TORCHELASTIC_RUN_ID="x")
    assert started.returncode == 0 and "2 ranks" in started.stdout, started.stdout + started.stderr


@pytest.mark.parametrize("further, rank", [
    ({}, "1"),
    ({"_FABRING_RUN": "1/2"}, "0"),
    ({"_FABRING_RUN": "0/1"}, "1"),  # by hand below a rank of `fabring run` that has imported fabring.torch
    ({"TORCHELASTIC_RUN_ID": "x"}, "0"),
    ({"_FABRING_RUN": "0/1", "TORCHELASTIC_RUN_ID": "x"}, "0"),
])
def test_a_rank_named_by_hand_is_that_also_where_a_launcher_named_the_pod(further, rank):
    """Not so what a launcher below `fabring run` has named, or a torchrun."""
    known = {name: value for name, value in os.environ.items() if name not in ("_FABRING_RUN", "TORCHELASTIC_RUN_ID")}
    started = subprocess.run(
        [sys.executable, "-c", "import os, fabring.torch; print(os.environ['RANK'], os.environ['WORLD_SIZE'])"],
        env={**known, "RANK": "0", "WORLD_SIZE": "1", "FABRING_RANK": "1", "FABRING_WORLD_SIZE": "2", **further},
        capture_output=True, text=True, timeout=120)
    assert started.stdout == ("1 2\n" if rank == "1" else "0 1\n"), started.stdout + started.stderr


@pytest.mark.parametrize("name", ["LOCAL_RANK", "FABRING_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"])
def test_every_launcher_is_asked_which_rank_of_its_host_this_is(name):
    known = {key: value for key, value in os.environ.items() if not key.endswith(("LOCAL_RANK", "LOCALRANKID", "LOCALID"))}
    started = subprocess.run([sys.executable, HERE / "jobs" / "who.py"],
                             env={**known, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", name: "5"},
                             capture_output=True, text=True, timeout=120)
    assert "rank 0 is local rank 5" in started.stdout, started.stdout + started.stderr


def test_nobody_warns_while_rank_0_is_late():
    started = fabring_run(2, "late.py")
    assert started.returncode == 0 and started.stdout.count("in time") == 2, started.stdout + started.stderr
    assert started.stderr == "", started.stderr


def test_a_monitored_barrier_may_be_the_last_that_rank_0_does():
    for _ in range(3):
        started = fabring_run(4, "monitored_last.py")
        assert started.returncode == 0 and started.stdout.count("fine") == 3, started.stdout + started.stderr


def test_an_exception_that_nobody_catches_is_told_to_the_others():
    started = fabring_run(3, "uncaught.py")
    said = started.stdout
    for other in (0, 2):
        assert f"rank {other}: fabring: aborted: " in said, said + started.stderr
    assert said.count("its program ended by RuntimeError: no such file: data.pt") == 2, said + started.stderr
    assert started.returncode == 1, said + started.stderr


def test_torch_finds_the_backend_by_its_entry_point(tmp_path):
    package = tmp_path / "fabring_here-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: fabring-here\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[torch.backends]\nfabring = fabring_torch_autoload:register\n")
    found = subprocess.run([sys.executable, "-c", "import torch; print('FABRING' in torch.distributed.Backend._plugins)"],
                           env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])},
                           capture_output=True, text=True, timeout=120)
    assert found.stdout == "True\n" and found.stderr == "", found.stdout + found.stderr
