"""fabring.horovod in jobs of real processes; only where torch is installed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CLEAN, fine, launch

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples/python"
GPU = Path(__file__).parents[1] / "gpu"


# packed: as tensors of a GPU travel, which are here in memory of the host. On GPUs tests/gpu/run.sh runs the same jobs.
@pytest.mark.parametrize("device", ["cpu", "packed"])
def test_collectives(device):
    done = fine(4, "horovod_collectives.py", device, options=("--split-nodes", "2"))
    assert done.out.count(" ok") == 10 * 4


@pytest.mark.parametrize("device", ["cpu", "packed"])
def test_training(device):
    done = fine(3, "horovod_training.py", device)
    assert done.out.count(" ok") == 13 * 3


@pytest.mark.parametrize("device", ["cpu", "packed"])
def test_sparse_gradients(device):
    assert fine(3, "horovod_sparse.py", device).out.count(" ok") == 4 * 3


def test_streams():
    """On the host there are none, but what else the job says must hold."""
    assert "all right" in fine(2, str(GPU / "horovod.py"), "cpu").out


def test_what_would_leave_ranks_with_different_models_is_refused():
    assert fine(2, "horovod_misuse.py").out.count("refused") == 2


def test_a_killed_rank_is_named():
    done = launch(3, "horovod_killed.py")
    assert done.out.count("named") == 2, str(done)


def test_an_exception_that_nobody_catches_is_told_to_the_others():
    done = launch(3, "uncaught.py", "horovod")
    assert done.out.count("its program ended by RuntimeError: no such file: data.npy") == 2, str(done)
    assert done.code == 1, str(done)


def test_a_name_that_some_have_not_called_is_reported():
    done = fine(2, "horovod_stalled.py", environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.3"})
    assert done.out.count("went on") == 2
    waited = re.findall(r"'allreduce.first' has waited ([0-9.]+) s for ranks \[1\]", done.err)
    assert waited and float(waited[0]) >= 0.3, str(done)
    assert sorted(map(float, waited)) == list(map(float, waited)) and len(set(waited)) == len(waited), "since it was called"


def test_a_rank_that_is_busy_elsewhere_is_waited_for():
    done = fine(2, "horovod_late.py", "late", environment={"FABRING_TIMEOUT": "3s"})
    assert done.out.count("so it should be") == 2


@pytest.mark.parametrize("way", ["never", "other name"])
def test_the_wait_for_a_rank_may_have_an_end(way):
    done = fine(2, "horovod_late.py", way, environment={"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "1"})
    assert done.out.count("so it should be") == 2


@pytest.mark.parametrize("called", [False, True])
def test_timeline(called, tmp_path):
    """Says who was waited for, how long, and what went together."""
    file = tmp_path / "timeline.json"
    where = {} if called else {"HOROVOD_TIMELINE": str(file), "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    done = fine(3, "horovod_timeline.py", *([str(file)] if called else []), environment=where)
    assert done.out.count("fine") == 3, str(done)
    events = json.loads(file.read_text())
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert set(rows.values()) == {"allreduce.late", "broadcast.weights", "allreduce without a name", "allreduce.shapes",
                                  "process set 1: allreduce.in the set", *(f"allreduce.small {i}" for i in range(4))}
    assert len(rows) == 9, "a row for a name, and one for calls without names that follow each other"

    def of(row, kind):
        return [event for event in events if event["ph"] == kind and rows.get(event.get("tid")) == row]

    spans = of("allreduce.late", "X")
    assert [span["name"] for span in spans] == ["NEGOTIATE_ALLREDUCE", "ALLREDUCE"] * 2
    asked = sorted(of("allreduce.late", "i"), key=lambda event: event["ts"])
    assert asked[2]["name"] == asked[5]["name"] == "rank 2", "who came last"
    waited, worked = spans[:2]
    assert waited["ts"] == asked[0]["ts"] and waited["ts"] + waited["dur"] >= asked[2]["ts"], "until all had asked"
    assert worked["ts"] >= waited["ts"] + waited["dur"] - 1 and worked["args"]["bytes"] == 28
    assert len([span for span in of("allreduce without a name", "X") if span["name"] == "ALLREDUCE"]) == 5
    assert [span["name"] for span in of("allreduce.shapes", "X")] == ["NEGOTIATE_ALLREDUCE"], "it failed"
    for rank in range(3):  # each at its own moment, also if they were told together
        small = [event["ts"] for i in range(4) for event in of(f"allreduce.small {i}", "i") if event["name"] == f"rank {rank}"]
        assert len(small) == 4 and small == sorted(set(small))
    cycles = [event for event in events if event["name"].endswith("CYCLE_START")]
    assert bool(cycles) != called


def test_a_timeline_that_cannot_be_written_is_named():
    done = launch(1, "horovod_timeline.py", environment={"HOROVOD_TIMELINE": "/no/such/folder/t.json"})
    assert done.code == 1 and "the timeline cannot be written to /no/such/folder/t.json: No such file" in done.err, str(done)


def test_a_timeline_whose_file_is_full_ends_and_training_goes_on():
    done = fine(3, "horovod_timeline.py", environment={"HOROVOD_TIMELINE": "/dev/full"})
    assert done.out.count("fine") == 3, str(done)
    assert done.err.count("the timeline ends here, as /dev/full cannot be written: No space left on device") == 1, str(done)


def test_what_one_rank_alone_has_no_memory_for_every_rank_hears_of():
    assert fine(3, "horovod_out_of_memory.py").out.count("heard") == 3


@pytest.mark.parametrize("way", ["shutdown", "remove"])
def test_a_rank_that_leaves_in_the_middle_of_a_round_adds_no_zeros(way):
    done = fine(3, "horovod_left.py", way)
    assert done.out.count("heard: ") == (3 if way == "shutdown" else 2), str(done)


def test_memory_that_one_rank_alone_shares_between_calls_is_refused_on_every_rank():
    done = fine(3, "horovod_shared.py", environment={"FABRING_TIMEOUT": "5s"})
    assert done.out.count("went on") == 3


def test_parameters_of_different_devices_do_not_travel_together():
    import torch
    from fabring.horovod.buckets import by_device

    here, there = [torch.ones(2) for _ in range(3)], [torch.ones(2, device="meta") for _ in range(2)]
    parts = by_device([here[0], there[0], here[1], there[1], here[2]])
    assert [[id(one) for one in part] for part in parts] == [[id(one) for one in here], [id(one) for one in there]]


def test_a_bad_number_is_named():
    done = launch(1, "horovod_stalled.py", environment={"HOROVOD_FUSION_THRESHOLD": "64MB"})
    assert done.code == 1 and "HOROVOD_FUSION_THRESHOLD=64MB" in done.err, str(done)


def losses(text):
    return [float(loss) for loss in re.findall(r"loss (\S+)", text)]


def test_digits_have_the_loss_of_one_process():
    pytest.importorskip("sklearn")
    script = str(EXAMPLES / "digits_horovod.py")
    alone = subprocess.run([sys.executable, script, "--epochs", "3"], env=CLEAN, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stderr
    four = fine(4, script, "--epochs", "3")
    assert len(losses(alone.stdout)) == 3 and losses(alone.stdout)[2] < 1
    assert losses(four.out) == pytest.approx(losses(alone.stdout), rel=1e-4)


def test_digits_are_shared_whole_where_the_ranks_do_not_divide_the_batch():
    pytest.importorskip("sklearn")
    script = str(EXAMPLES / "digits_horovod.py")
    words = ["--epochs", "2", "--batch", "511"]  # of the last batch there are 3 images, for 4 ranks
    alone = subprocess.run([sys.executable, script, *words], env=CLEAN, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 0, alone.stderr
    assert losses(fine(4, script, *words).out) == pytest.approx(losses(alone.stdout), rel=1e-4)


def test_throughput_script_reports_scaling():
    words = "--scaling 1,2 --steps 2 --warmup 1 --batch-size 2 --image-size 32".split()
    done = subprocess.run([sys.executable, str(EXAMPLES / "throughput.py"), *words], env=CLEAN, capture_output=True, text=True,
                          timeout=200)
    assert done.returncode == 0, done.stderr
    assert "25557032 weights" in done.stdout and re.search(r"^ +2 .*%$", done.stdout, re.M), done.stdout
