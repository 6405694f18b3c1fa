"""shrink_group: ranks that have lost one make a smaller group in the same processes and go on."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fabring.torch
from ranks import run
from test_programs import fabring_run


def expect_sum(value, group=None):
    tensor = torch.full((50_000,), float(dist.get_rank(group) + 1))
    dist.all_reduce(tensor, group=group)
    assert tensor.unique().tolist() == [value], (tensor.unique(), value)


def lose(victim):
    """Every rank but the victim, which is killed when the others wait for it in no earlier call."""
    assert fabring.torch.lost_rank() is None
    dist.monitored_barrier()
    if dist.get_rank() == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match="peer_lost"):
        dist.all_reduce(torch.ones(50_000))
    assert fabring.torch.lost_rank() == victim


def two_die(rank, size):
    odd = dist.new_group([1, 3])  # of the names that come again
    lose(2)
    group = dist.shrink_group([2])
    assert group is dist.group.WORLD and dist.get_world_size() == 4
    assert dist.get_rank() == [0, 1, None, 2, 3][rank] and dist.get_backend() == "fabring"
    assert dist.get_process_group_ranks(group) == [0, 1, 2, 3], "numbered anew"
    expect_sum(1 + 2 + 3 + 4)
    assert odd == dist.GroupMember.NON_GROUP_MEMBER or odd not in dist.distributed_c10d._world.pg_map

    # New groups name ranks as they are numbered now: 0 and 2 are those that began as 0 and 3.
    pair = dist.new_group([0, 2])
    if rank in (0, 3):
        assert fabring.torch.report(pair)
        expect_sum(1 + 2, pair)
        assert pair._get_backend(torch.device("cpu")).job_ranks == [0, 3]
    model = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    model(torch.full((1, 4), float(dist.get_rank()))).sum().backward()
    assert model.module.weight.grad.unique().tolist() == [(0 + 1 + 2 + 3) / 4]

    lose(0)  # whose part it is to say how a group is made
    group = dist.shrink_group([0], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    assert dist.get_rank() == [None, 0, None, 1, 2][rank] and dist.get_process_group_ranks(group) == [0, 1, 2]
    expect_sum(1 + 2 + 3)
    last = dist.new_group([1, 2])
    if rank != 1:
        expect_sum(1 + 2, last)
    value = torch.tensor([rank])
    dist.broadcast(value, src=1)
    assert value.item() == 3
    dist.barrier()


def test_those_who_are_left_shrink_the_default_group_and_go_on():
    run(5, two_die, killed=(0, 2))


def two_die_at_once(rank, size):
    """By the loop of docs/pytorch.md: the first of those who are left after one death is dead too."""
    dist.monitored_barrier()
    if rank < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    began, lost = time.monotonic(), []
    while dist.get_world_size() > 2:
        try:
            if lost:
                dist.shrink_group(lost)
            expect_sum(1 + 2)
        except dist.DistBackendError as error:
            assert "peer_lost" in str(error), error
            lost = fabring.torch.lost_ranks()
            assert lost
    assert time.monotonic() - began < 30, "far less than the timeout of 300 s"
    expect_sum(1 + 2)
    assert fabring.torch.lost_ranks() == [] and fabring.torch.lost_rank() is None


def test_two_that_die_at_once_are_both_left_out():
    run(4, two_die_at_once, killed=(0, 1), timeout_s=300)


def the_first_is_dead(rank, size):
    lose(0)
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="peer_lost: .*rank 0 "):
        dist.new_group(use_local_synchronization=True)
    assert time.monotonic() - began < 30, "far less than the timeout of 300 s"
    assert fabring.torch.lost_ranks() == [0]


def test_a_new_group_does_not_wait_for_a_first_member_that_is_dead():
    run(3, the_first_is_dead, killed=(0,), timeout_s=300)


def shrinks_again(rank, size):
    store = dist.distributed_c10d._get_default_store()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))

    def set_timeout(seconds):
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), dist.group.WORLD)

    if rank in (1, 2):
        set_timeout(0.3)
        with pytest.raises(dist.DistBackendError, match="rank 0 of the group did not come within 300 ms"):
            backend.shrink([3], 0, None)
        set_timeout(10)
    store.set(f"gave up {rank}", "")
    store.wait(["gave up 1", "gave up 2"])
    if rank != 3:
        for _ in range(2):  # the one after that is another group
            tensor = torch.tensor([rank])
            backend.shrink([3], 0, None).allreduce([tensor]).wait()
            assert tensor.item() == 0 + 1 + 2
    dist.barrier()


def test_a_shrink_is_tried_again_after_a_timeout():
    run(4, shrinks_again)


def one_is_late_for_a_shrink(rank, size):
    store = dist.distributed_c10d._get_default_store()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if rank == 1:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.3), dist.group.WORLD)
        with pytest.raises(dist.DistBackendError, match="rank 0 of the group did not come within 300 ms"):
            backend.shrink([3], 0, None)
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=10), dist.group.WORLD)
        store.set("gave up", "")
    store.wait(["gave up"])
    if rank in (0, 2):
        made = backend.shrink([3], 0, None)
        store.set(f"{rank} has it", "")
    store.wait(["0 has it", "2 has it"])
    if rank == 1:
        made = backend.shrink([3], 0, None)
    if rank != 3:
        for group in (made, backend.shrink([3], 0, None)):  # the one after that is another group, of all again
            tensor = torch.tensor([rank])
            group.allreduce([tensor]).wait()
            assert tensor.item() == 0 + 1 + 2
    dist.barrier()


def test_only_those_that_a_shrink_failed_on_call_again():
    run(4, one_is_late_for_a_shrink)


def some_of_a_group(rank, size):
    group = dist.new_group([1, 2, 3])
    if rank == 0 or rank == 1:  # 1 is rank 0 there
        dist.barrier()
        return
    small = dist.shrink_group([0], group)
    assert small is not dist.group.WORLD and dist.get_process_group_ranks(small) == [2, 3]
    assert dist.get_group_rank(small, 3) == 1 and dist.get_global_rank(small, 0) == 2
    expect_sum(1 + 2, small)
    value = torch.tensor([rank])
    dist.broadcast(value, src=3, group=small)
    assert value.item() == 3
    dist.barrier()  # the default group is as it was
    assert dist.get_world_size() == 4


def test_another_group_is_shrunk_with_nobody_dead_and_the_default_group_stays():
    run(4, some_of_a_group)


def on_both_devices(rank, size):
    if rank == 1:
        return
    group = dist.shrink_group([1])
    assert {device.type for device in group._device_types} == {"cpu", "cuda"}
    assert group._get_backend(torch.device("cpu")).name() == group._get_backend(torch.device("cuda")).name() == "fabring"
    expect_sum(1 + 2)


def test_a_shrunk_group_has_the_devices_of_the_group_before():
    run(3, on_both_devices, backend="cpu:fabring,cuda:fabring")


def wrong(rank, size):
    with pytest.raises(RuntimeError, match="exclusion list"):
        dist.shrink_group([rank])
    with pytest.raises(ValueError, match="out of bounds"):
        dist.shrink_group([7])
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    with pytest.raises(ValueError, match="is to be left out"):
        backend.shrink([rank], 0, None)
    with pytest.raises(ValueError, match="not fabring"):
        fabring.torch.lost_rank(dist.new_group(backend="gloo"))
    expect_sum(1 + 2)


def test_wrong_calls_leave_the_group_as_it_was():
    run(2, wrong)


def test_as_people_start_them():
    """Ranks of fabring run that meet by env://, whose store is in the process of rank 0: another one is killed."""
    done = fabring_run(3, "shrunk.py")
    assert done.stdout.count("goes on with 2 ranks") == 2, done.stdout + done.stderr
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
