"""The package fabring in jobs of real processes; what each rank does is in jobs/."""

import os
import signal
import socket
import subprocess
import sys
import time
import types

import pytest
from conftest import CLEAN, JOBS, fine, launch
from on_gpu import OnGpu

import fabring
from fabring import arrays, errors, identity


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_collective_equals_numpy(ranks):
    done = fine(ranks, "collectives.py")
    assert done.out.count(" ok") == 8 * ranks


def test_collectives_over_asio_tcp():
    fine(2, "collectives.py", environment={"FABRING_TRANSPORT": "tcp"})


def test_arrays_of_other_libraries():
    assert fine(2, "dlpack.py").out.count("foreign") == 2


def test_arrays_that_ranks_read_and_write_directly():
    assert fine(2, "mapped.py").out.count("mapped ok") == 2


def test_wrong_calls_are_refused_before_anything_is_sent():
    assert fine(2, "wrong_calls.py").out.count("refusals ok") == 2


def test_calls_have_limits_of_their_own():
    assert fine(2, "timeouts.py").out.count("in time") == 2


def test_calls_that_one_rank_gets_wrong_are_told_to_those_who_wait_in_them():
    assert fine(3, "refused.py").out.count("told") == 3


def test_different_shapes_raise_with_both_sides():
    assert fine(2, "mismatch.py").out.count("stays so") == 2


@pytest.mark.parametrize("way", ["blocking", "asynchronous"])
def test_a_killed_rank_is_named(way):
    done = launch(3, "killed.py", way)
    assert done.out.count("named") == 2, str(done)
    assert done.code == 128 + signal.SIGKILL and "rank 1" in done.err, str(done)


def test_those_who_are_left_shrink_and_go_on():
    done = launch(4, "left.py")
    assert done.out.count("went on") == 2, str(done)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_subgroups_and_going_on_without_a_killed_rank(transport):
    done = launch(4, "subgroups.py", environment={"FABRING_TRANSPORT": transport})
    assert done.out.count("goes on without rank 1") == 3, str(done)


@pytest.mark.parametrize("way", ["script", "with"])
def test_an_exception_that_nobody_catches_is_told_to_the_others(way):
    done = launch(3, "uncaught.py", way)
    for other in (0, 2):
        assert f"rank {other}: allreduce" in done.out, str(done)
    assert done.out.count("rank 1 (host ") == done.out.count("RuntimeError: no such file: data.npy") == 2, str(done)
    assert done.code == 1, str(done)


@pytest.mark.parametrize("way, words", [("exit", "has left the job without calling #"),
                                        ("exit-with", "its program ended with exit status 3")])
def test_who_exits_while_others_wait_is_named_at_once(way, words):
    done = launch(3, "uncaught.py", way)
    assert done.out.count("rank 1 (host ") == done.out.count(words) == done.out.count("; at once") == 2, str(done)
    assert done.code == 3, str(done)


def test_interrupt_ends_a_wait():
    done = fine(2, "interrupted.py")
    assert "rank 0: interrupted" in done.out and "rank 1: peer_lost" in done.out, str(done)


def test_arrays_that_nobody_holds_are_kept_until_their_operation_is_over():
    assert fine(2, "let_go.py").out.count("let go") == 2


@pytest.mark.parametrize("start, end, words", [("fork", "return", "has left the job without calling #"),
                                               ("forkserver", "return", "has left the job without calling #"),
                                               ("spawn", "return", "has left the job without calling #"),
                                               ("fork", "exit", "has left the job without calling #"),
                                               ("fork", "horovod", "has left the job without calling #"),
                                               ("fork", "raise", "its program ended by RuntimeError: no such file: data.npy"),
                                               ("spawn", "raise", "its program ended by RuntimeError: no such file: data.npy")])
def test_ranks_that_are_processes_of_multiprocessing_say_goodbye(start, end, words):
    if end == "horovod":
        pytest.importorskip("torch")
    done = fine(3, "processes.py", start, end)
    assert done.out.count("rank 1 (host ") == done.out.count(words) == 2, str(done)
    assert done.out.count("exit code 0") == (3 if end in ("return", "horovod") else 2), str(done)


def test_fork_after_init():
    assert fine(2, "forked.py").out.count("survived") == 2


def test_threads_that_call_init_at_once_get_the_same():
    for mode in ("met", "settings"):
        assert fine(2, "at_once.py", mode).out.count("ok") == 2


def test_threads_that_call_init_at_once_hear_the_same_failure():
    """Rank 0 of 2, and nobody else comes."""
    settings = {"FABRING_RANK": "0", "FABRING_WORLD_SIZE": "2", "FABRING_MASTER_ADDR": "127.0.0.1",
                "FABRING_RENDEZVOUS_TIMEOUT": "5s"}
    done = subprocess.run([sys.executable, str(JOBS / "at_once.py"), "alone"], env={**CLEAN, **settings}, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


@pytest.mark.parametrize("started_by", [
    {"FABRING_RANK": "1", "FABRING_WORLD_SIZE": "2", "FABRING_MASTER_ADDR": "a", "SLURM_STEP_ID": "0"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1", "PMIX_NAMESPACE": "a"},
    {"PMIX_RANK": "1", "PMIX_NAMESPACE": "a", "FABRING_WORLD_SIZE": "2"},
    {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"},
    {"JOB_COMPLETION_INDEX": "1", "FABRING_WORLD_SIZE": "2", "FABRING_MASTER_ADDR": "a"},
    {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}])
def test_a_fork_is_who_its_parent_was_whatever_was_set_since(monkeypatch, started_by):
    monkeypatch.setattr(os, "environ", dict(started_by))
    parents = identity.of_process(None, True)
    os.environ |= {"RANK": "7", "WORLD_SIZE": "8", "MASTER_ADDR": "b", "MASTER_PORT": "1", "PMI_RANK": "7"} | started_by
    assert identity.is_still(parents, None, True)
    assert not identity.is_still(parents, {"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}, True)
    rank = next(name for name in started_by if name.endswith(("RANK", "PROCID", "INDEX")))
    os.environ[rank] = "0"
    assert not identity.is_still(parents, None, True), "another rank, in the words of its launcher"


def test_init_after_the_engine_was_closed_meets_the_others_anew():
    assert fine(2, "closed.py").out.count("met anew") == 2


def test_an_engine_is_kept_by_its_communicators():
    done = fine(2, "kept.py")
    assert done.out.count("kept") == 2 and not done.err, str(done)


def test_plans_of_the_program():
    fine(3, "with_plans.py")


def test_an_engine_that_is_closed_waits_for_memory_that_is_being_made():
    assert fine(1, "closed_in_use.py").out.count("closed in use") == 1


def test_works_that_were_dropped_cost_later_starts_nothing():
    assert fine(2, "many_dropped.py").out.count("dropped") == 2


def test_what_a_dropped_work_keeps_goes_at_the_next_wait_or_question():
    assert fine(2, "let_go_at_waits.py").out.count("let go") == 2


def test_threads():
    assert fine(2, "threads.py").out.count("threads ok") == 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_init_without_threads_works_or_names_the_limit(ranks):
    """The rank 0 of a job of which nobody else comes: it must not get as far as to notice."""
    settings = {"FABRING_RANK": "0", "FABRING_WORLD_SIZE": str(ranks), "FABRING_MASTER_ADDR": "127.0.0.1"}
    done = subprocess.run([sys.executable, str(JOBS / "few_threads.py")], env={**CLEAN, **settings}, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("works\n" if ranks == 1 else "named the limit\n"), done.stdout


def test_interrupt_ends_the_rendezvous():
    """Rank 0 of 2, and nobody else comes."""
    program = "import fabring\nprint('going', flush=True)\nfabring.init()"
    settings = {"FABRING_RANK": "0", "FABRING_WORLD_SIZE": "2", "FABRING_MASTER_ADDR": "127.0.0.1"}
    rank = subprocess.Popen([sys.executable, "-c", program], env={**CLEAN, **settings}, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    assert rank.stdout.readline() == "going\n"
    asked = time.monotonic()
    rank.send_signal(signal.SIGINT)
    _, err = rank.communicate(timeout=60)
    assert "KeyboardInterrupt" in err and time.monotonic() - asked < 30, err


@pytest.fixture
def retried():
    """Starts a rank of a job of two, of tests/python/jobs/retried.py."""
    with socket.socket() as reserved:  # bound, not listening: rank 0 may, and nobody else is given it
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        started = []

        def start(rank, role):
            started.append(subprocess.Popen(
                [sys.executable, str(JOBS / "retried.py"), role], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**CLEAN, "FABRING_RANK": str(rank), "FABRING_WORLD_SIZE": "2", "FABRING_MASTER_ADDR": "127.0.0.1",
                     "FABRING_MASTER_PORT": str(reserved.getsockname()[1]), "FABRING_TIMEOUT": "20s",
                     "FABRING_RENDEZVOUS_TIMEOUT": "20s"}))
            return started[-1]

        yield start
        for process in started:
            process.kill()
            process.communicate()


def go_on(process):
    print("go on", file=process.stdin, flush=True)


def end_well(*ranks):
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        assert rank.returncode == 0 and out.endswith("ok\n"), out + err


@pytest.mark.parametrize("others_come", ["before", "after"])
@pytest.mark.parametrize("interrupted", [0, 1])
def test_an_interrupted_init_goes_on_in_the_next_one(retried, interrupted, others_come):
    """One rank of two is interrupted while it is alone; the other comes before or after it calls init() again."""
    first, second = retried(interrupted, "interrupted"), retried(1 - interrupted, "other")
    assert first.stdout.readline() == "interrupted\n", first.communicate()
    order = (second, first) if others_come == "before" else (first, second)
    for rank, said in zip(order, ("met\n" if others_come == "before" else "again\n", "")):
        go_on(rank)
        assert not said or rank.stdout.readline() == said, rank.communicate()
    end_well(first, second)


@pytest.mark.parametrize("ended", ["killed", "raises"])
@pytest.mark.parametrize("interrupted", [0, 1])
def test_init_after_an_interrupted_one_whose_job_is_over_meets_anew(retried, interrupted, ended):
    """The other rank comes and ends before init() is called again, and is started a second time."""
    first, second = retried(interrupted, "outlives"), retried(1 - interrupted, ended)
    assert first.stdout.readline() == "interrupted\n", first.communicate()
    go_on(second)
    second.communicate(timeout=60)
    go_on(first)
    third = retried(1 - interrupted, "other")
    go_on(third)
    end_well(first, third)


def test_shutdown_leaves_what_an_interrupted_init_met(retried):
    """Then init() may be called with other settings."""
    first, second = retried(0, "leaves"), retried(1, "returns")
    assert first.stdout.readline() == "interrupted\n", first.communicate()
    go_on(first)
    go_on(second)
    end_well(first, second)


def test_a_bad_setting_is_named():
    with pytest.raises(fabring.InvalidArgumentError, match="FABRING_TIMEOUT"):
        fabring.Engine({"FABRING_TIMEUOT": "3s"}, environment=False)


def test_a_program_may_say_itself_which_rank_it_is():
    alone = {"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}
    with fabring.Engine(alone) as engine:
        assert (engine.world.rank, engine.world.size) == (0, 1)
    with pytest.raises(fabring.InvalidArgumentError, match="did you mean 'FABRING_TIMEOUT'"):
        fabring.Engine({"FABRING_TIMEUOT": "3s"})


def test_memory_of_a_gpu_is_refused_by_what_was_built_without_cuda(monkeypatch):
    """Taken for the host's it would be the end of the process."""
    monkeypatch.setattr(fabring._core, "takes_gpu_memory", False)
    with fabring.Engine({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}) as engine:
        for call in (lambda: engine.world.broadcast(OnGpu()), lambda: engine.world.send(OnGpu(), 0)):
            with pytest.raises(fabring.UnsupportedError, match="built without CUDA"):
                call()


def test_tensors_on_amd_gpus_are_refused(monkeypatch):
    torch = pytest.importorskip("torch")
    tensor = types.SimpleNamespace(dtype=torch.float32, device=torch.device("cuda", 0))  # as they call themselves
    monkeypatch.setattr(torch.version, "hip", "6.2")
    monkeypatch.setattr(fabring._core, "takes_gpu_memory", True)
    with pytest.raises(fabring.UnsupportedError, match="AMD"):
        arrays._view_torch(tensor, "x", False)


def test_communicators_without_a_name_have_different_ones():
    with fabring.Engine({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}) as engine:
        world = engine.world
        made = [world.duplicate(), world.duplicate(), world.split(0), world.split(0), world.split_by_node(),
                world.duplicate("mine"), world.duplicate()]
        labels = [one.label for one in made]
    assert len(set(labels)) == len(labels) and labels[0] == "world'" and labels[5] == "mine"


def test_errors_are_what_people_already_catch():
    lost = errors.make("peer_lost", "rank 2 died", 2, "b", "allreduce", 17, 4096)
    assert isinstance(lost, (ConnectionError)) and isinstance(lost, fabring.Error)
    assert (lost.rank, lost.host, lost.sequence, str(lost)) == (2, "b", 17, "rank 2 died")
    import pickle  # of a worker process' exception

    again = pickle.loads(pickle.dumps(lost))
    assert type(again) is type(lost) and vars(again) == vars(lost) and str(again) == str(lost)
    for code, kind in errors._BY_CODE.items():
        assert str(errors.make(code, "why", -1, "", "", 0, 0)) == "why" and kind.code == code


def test_the_exit_code_is_that_of_the_rank():
    assert subprocess.run([sys.executable, "-m", "fabring.run", "-n", "1", "--", "-c", "raise SystemExit(7)"],
                          env=CLEAN, capture_output=True, timeout=60).returncode == 7
    assert os.access(__import__("fabring.run", fromlist=["path"]).path(), os.X_OK)
