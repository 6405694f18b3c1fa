"""A start that fails on one rank: what the others hear, and when; also where the store ends with the process that has it."""

import json
import os
import pathlib
import subprocess
import time
import uuid

import pytest
import torch.distributed as dist

import fabring.torch
from ranks import create, run, store_of_rank_0

COMMAND = pathlib.Path(fabring.__file__).parent / "bin" / "fabring"


def with_a_setting_on_one_rank(rank, size, culprit, name, value):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    if rank == culprit:
        os.environ[name] = value
    began = time.monotonic()
    with pytest.raises(ValueError if rank == culprit else dist.DistBackendError) as caught:
        create(store, rank, size)
    assert time.monotonic() - began < 30, "not when the timeout of the group is over"
    return str(caught.value)


@pytest.mark.parametrize("culprit", [0, 2])
@pytest.mark.parametrize("name, value", [("FABRING_TRANPORT", "shm"), ("FABRING_TIMEOUT", "never"),
                                         ("FABRING_PROVIDER", "nosuch"), ("FABRING_RENDEZVOUS_TIMEOUT", "never")])
def test_a_setting_refused_on_one_rank_is_told_the_others_at_once(culprit, name, value):
    texts = run(3, with_a_setting_on_one_rank, culprit, name, value)
    for rank, text in enumerate(texts):
        assert name in text, text
        assert rank == culprit or f"rank {culprit} (host " in text, text


def named(rank, size, names):
    """What the job is called, and what `fabring status` says of that name meanwhile."""
    for name in ("FABRING_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_PORT"):
        os.environ.pop(name, None)
    os.environ.update(names[rank])
    group = create(dist.PrefixStore("again", dist.distributed_c10d._get_default_store()), rank, size)
    name = fabring.torch._backend.setting(group, "FABRING_JOB_ID")
    told = [0]
    if rank == 0 and name and COMMAND.exists():
        done = subprocess.run([COMMAND, "status", name, "--json"], capture_output=True, text=True, timeout=30)
        told = [len(job["ranks"]) for job in json.loads(done.stdout)["jobs"] if job["job"] == name]
    dist.barrier()
    return name, told


@pytest.mark.parametrize("names, called", [
    ([{"FABRING_JOB_ID": "mine"}, {"FABRING_JOB_ID": "mine"}], "mine"),
    ([{"FABRING_JOB_ID": "mine"}, {"FABRING_JOB_ID": "another"}], "mine"),  # the ranks of one engine have one name
    ([{}, {"FABRING_JOB_ID": "another"}], ""),
    ([{"TORCHELASTIC_RUN_ID": "run", "MASTER_PORT": "4711"}, {}], "torchrun.run.4711"),
    ([{"TORCHELASTIC_RUN_ID": "run", "FABRING_JOB_ID": "mine"}, {}], "mine"),
    ([{"TORCHELASTIC_RUN_ID": "no\nname"}, {}], ""),
])
def test_a_job_is_called_as_its_rank_0_says(names, called):
    tag = uuid.uuid4().hex  # for `fabring status`: other jobs may run here
    names = [{key: value.replace("mine", tag).replace("run", tag) for key, value in one.items()} for one in names]
    called = called.replace("mine", tag).replace(".run.", f".{tag}.")
    (first, told), (second, _) = run(2, named, names)
    assert (first, second) == (called, called)
    if called and COMMAND.exists():
        assert told == [2], told


def rank_0_gives_up_and_ends(rank, size, what):
    store = store_of_rank_0(rank)
    if what == "start" and rank == 0:
        os.environ["FABRING_INTERFACE"] = "nosuch0"
    if what == "roll call" and rank == 2:
        dist.distributed_c10d._get_default_store().wait(["over"])
        return ""
    try:
        create(store, rank, size, 1 if what == "roll call" and rank == 0 else 60)
    except dist.DistError as error:
        if rank == 0:
            os._exit(0)  # and the store with it
        dist.distributed_c10d._get_default_store().set("over", "")
        return str(error)


def test_rank_0_ends_with_its_store_when_the_others_have_read_why():
    for text in run(3, rank_0_gives_up_and_ends, "start", killed=(0,))[1:]:
        assert "rank 0 (host " in text and "no interface nosuch0" in text, text
    text = run(3, rank_0_gives_up_and_ends, "roll call", killed=(0,))[1]
    assert "rank 0: rank 2 of 3 did not come within 1000 ms" in text, text


def let_in(store, rank):
    """Plays rank 0, which calls the others; returns when this one waits for what else it has to say."""
    store.set("fabring/offer", "token 0 all")
    word = store.get(f"fabring/token/here/{rank}").decode().split()[0]
    store.set(f"fabring/token/in/{word}", "")
    store.get(f"fabring/token/join/{rank}")


def rank_1_comes_twice(rank, size):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    with pytest.raises(dist.DistBackendError) as caught:
        create(store, min(rank, 1), size, 2)
    dist.barrier()
    return str(caught.value), os.getpid()


def test_two_processes_of_one_rank_are_told_of_each_other():
    (zero, _), (first, one), (second, other) = run(3, rank_1_comes_twice)
    assert "rank 2 of 3 did not come" in zero, zero
    for text in (zero, first, second):
        assert "rank 1 came twice: (host " in text and "every process its own RANK" in text, text
        assert f"pid {one})" in text and f"pid {other})" in text, text


def the_other_one_is_in(rank, size):
    store = store_of_rank_0(rank)
    if rank == 0:  # has heard another one, and ends
        store.set("fabring/token/here/1", "word (host b, pid 4711)")
        store.set("fabring/offer", "token 0 all")
        store.get("fabring/token/twice")
        os._exit(0)
    with pytest.raises(dist.DistError) as caught:
        create(store, rank, size)
    return str(caught.value)


def test_a_second_process_of_a_rank_says_so_when_the_job_of_the_first_one_is_over():
    text = run(2, the_other_one_is_in, killed=(0,))[1]
    assert "look at rank 0's output" in text and "rank 1 came twice: (host b, pid 4711) and (host " in text, text


def the_life_before_has_answered(rank, size):
    store = store_of_rank_0(rank)
    if rank == 0:  # calls as in the life before, where it was answered, then anew, and ends
        store.set("fabring/token/here/1", "word (host b, pid 4711)")
        store.set("fabring/offer", "token 0 all")
        store.get("fabring/token/twice")
        store.set("fabring/offer", "new 0 all")
        store.get("fabring/new/here/1")
        os._exit(0)
    with pytest.raises(dist.DistError) as caught:
        create(store, rank, size)
    return str(caught.value)


def test_an_answer_of_the_life_before_is_no_second_process():
    text = run(2, the_life_before_has_answered, killed=(0,))[1]
    assert "look at rank 0's output" in text and "came twice" not in text, text


def the_store_dies(rank, size, folder):
    store = store_of_rank_0(rank)
    if rank == 0:
        let_in(store, 1)
        os._exit(0)
    with open(f"{folder}/stderr", "w+") as said:
        os.dup2(said.fileno(), 2)
        with pytest.raises(dist.DistBackendError) as caught:
            create(store, rank, size)
        said.seek(0)
        return str(caught.value), said.read(), store.port


def test_a_store_that_is_gone_is_asked_no_more_and_named_with_whose_process_it_was(tmp_path):
    text, said, port = run(2, the_store_dies, str(tmp_path), killed=(0,))[1]
    assert f"the store at 127.0.0.1:{port}, which rank 0's process has" in text and "look at rank 0's output" in text, text
    assert "frame #" not in text and "Exception raised" not in text, text
    assert said.count("Exception raised from") <= 1, "c10d's own warning, of the first try: " + said


def one_that_answers_and_goes_no_further(rank, size):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    if rank == 1:
        token = store.get("fabring/offer").decode().split()[0]
        store.set(f"fabring/{token}/here/1", "word")
        store.set(f"fabring/{token}/heard/1", "")
        return ""
    with pytest.raises(dist.DistBackendError) as caught:
        create(store, rank, size, 0.5)
    return str(caught.value)


def test_a_rank_that_has_answered_and_a_limit_that_is_the_groups_are_called_so():
    text = run(2, one_that_answers_and_goes_no_further)[0]
    assert "rank 1 of 2 did not come within 500 ms" in text, text
    assert "all ranks had answered in the store before; FABRING_RENDEZVOUS_TIMEOUT is not set: it is the timeout" in text, text
