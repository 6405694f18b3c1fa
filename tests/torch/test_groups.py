"""Process groups: cheap ones, overlapping ones, and new ones after old ones."""

import os
import re
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import fabring.torch
from ranks import create, run, threads_of_this_process


def many_groups(rank, size):
    dist.barrier()
    before = threads_of_this_process()
    groups = [dist.new_group([0, 1] if i % 3 == 0 else [1, 2] if i % 3 == 1 else None) for i in range(60)]
    for i, group in enumerate(groups):
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            continue
        tensor = torch.tensor([float(i + rank)])
        dist.all_reduce(tensor, group=group)
        members = dist.get_process_group_ranks(group)
        assert tensor.item() == sum(i + member for member in members)
    assert threads_of_this_process() <= before + 1, "a group is no thread; the progress thread may have begun meanwhile"
    mine = dist.new_group([rank], use_local_synchronization=True)  # the others do not know of it
    dist.barrier(mine)
    if rank != 1:
        pair = dist.new_group([0, 2], use_local_synchronization=True)
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 2
    dist.destroy_process_group(groups[2])
    dist.barrier()
    assert "transport" in "".join(fabring.torch.report())


def test_groups_share_one_engine():
    run(3, many_groups)


def with_a_setting(rank, size, name, value):
    os.environ[name] = value
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    return fabring.torch._backend.setting(create(store, rank, size), name)


def test_the_longest_setting_is_told_whole():
    rules = ",".join([f"allreduce:{kib}K:ring" for kib in range(1000, 1048)] + ["allreduce:1:ring"])
    assert len(rules) == 1024, "all that a setting takes"
    assert run(2, with_a_setting, "FABRING_ALGORITHM", rules) == [rules, rules]


def again(rank, size):
    for life in range(3):
        tensor = torch.tensor([life])
        dist.all_reduce(tensor)
        assert tensor.item() == life * size
        group = dist.new_group([1, 0])
        dist.barrier(group)
        # Rank 1 is there when rank 0 goes on, also where there was one before the group was made again.
        store = dist.distributed_c10d._get_default_store()
        if rank == 1:
            store.set(f"comes {life}", "")
        dist.monitored_barrier()
        assert store.check([f"comes {life}"])
        store = dist.distributed_c10d._get_default_store()
        dist.destroy_process_group()
        if life < 2:  # the same store, with the keys of before in it
            dist.init_process_group("fabring", store=store, rank=rank, world_size=size)


def test_the_default_group_may_be_made_again():
    run(2, again)


def again_and_again(rank, size, end):
    """With a new engine each time, of which those that some ranks still have are not to be taken for new groups."""
    store = dist.distributed_c10d._get_default_store()
    kept = []
    for life in range(6):
        if end == "destroy":
            kept += [dist.irecv(torch.ones(1), 1 - rank)] if rank < 2 else []
            dist.destroy_process_group()
        else:
            kept += [dist.group.WORLD] if rank < 2 else []
            dist.distributed_c10d._abort_process_group()
        dist.init_process_group("fabring", store=store, rank=rank, world_size=size)
        dist.barrier(dist.new_group(timeout=timedelta(seconds=10)))
        store.set(f"over {life} {rank}", "")  # who aborts must not end the barrier of another rank
        store.wait([f"over {life} {rank}" for rank in range(size)])


@pytest.mark.parametrize("end", ["destroy", "abort"])
def test_new_groups_are_on_the_newest_engine(end):
    run(3, again_and_again, end)


def destroyed_while_receiving(rank, size):
    dist.barrier()
    told = []
    heard = dist.irecv(torch.ones(1), 1 - rank, tag=1)
    work = dist.irecv(torch.ones(1), 1 - rank, tag=2)

    def listen():
        try:
            heard.wait()
        except dist.DistBackendError as error:
            told.append(str(error))

    listener = threading.Thread(target=listen)
    listener.start()
    store = dist.distributed_c10d._get_default_store()
    # What others take part in is heeded: rank 1 comes when rank 0 has destroyed its groups.
    if rank == 0:
        late = torch.ones(3)
        sum_of_all = dist.all_reduce(late, async_op=True)
        dist.destroy_process_group()
        assert not work.is_completed()
        store.set("destroyed", "")
        sum_of_all.wait()
        assert late.tolist() == [size] * 3
    else:
        store.wait(["destroyed"])
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()
    began = time.monotonic()
    over = "aborted|has left the job"  # by this rank's end, or by the other's where that came first
    with pytest.raises(dist.DistBackendError, match=over):
        work.wait()
    listener.join(30)
    assert time.monotonic() - began < 5, "at once, not when the timeout of 300 s is over"
    assert re.search(over, told[0]), told


def test_receives_that_nothing_comes_for_end_when_the_groups_are_destroyed():
    run(2, destroyed_while_receiving, timeout_s=300, limit_s=60)


def destroyed_while_it_comes(rank, size):
    store = dist.distributed_c10d._get_default_store()
    large = torch.full((1 << 25,), float(rank))
    if rank == 0:
        work = dist.irecv(large, 1, tag=1)
        dist.recv(torch.ones(1), 1, tag=2)  # sent after the other, which has begun to come by now
        destroyer = threading.Thread(target=dist.destroy_process_group)  # waits for the others
        destroyer.start()
        work.wait()
        assert large.eq(1).all()
        store.set("received", "")
        destroyer.join()
        return
    if rank == 1:
        work = dist.isend(large, 0, tag=1)
        dist.send(torch.ones(1), 0, tag=2)
        work.wait()
        store.wait(["received"])
        dist.send(torch.ones(1), 2)
    else:
        dist.recv(torch.ones(1), 1)
    dist.destroy_process_group()


def test_a_message_that_is_coming_arrives_when_the_groups_are_destroyed():
    run(3, destroyed_while_it_comes, limit_s=60)


def beside_gloo(rank, size):
    group = dist.new_group([0, 2], backend="fabring")  # the default group has no engine
    other = dist.new_group([1, 2], backend="fabring")
    for members, one in (([0, 2], group), ([1, 2], other)):
        if rank in members:
            tensor = torch.tensor([rank])
            dist.all_reduce(tensor, group=one)
            assert tensor.item() == sum(members)


def beside_gloo_of_all_first(rank, size):
    everybody = dist.new_group(backend="fabring")
    dist.barrier(everybody)
    before = threads_of_this_process()
    for members in ([0, 1], [1, 2], [0, 2]):
        group = dist.new_group(members, backend="fabring")
        if rank in members:
            dist.barrier(group)
    assert threads_of_this_process() <= before + 1, "parts of one engine, whose progress thread may have begun meanwhile"


def test_groups_beside_another_backend_are_parts_of_one_of_all_ranks():
    run(3, beside_gloo_of_all_first, backend="gloo")


def test_a_group_of_a_job_with_another_backend():
    run(3, beside_gloo, backend="gloo")


def split(rank, size):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    assert backend.supports_splitting and backend.rank() == rank and backend.name() == "fabring"


def test_what_the_backend_says_of_itself():
    run(2, split)


def unlike_members(rank, size):
    if rank == 0:
        try:
            dist.new_group([0, 1])
        except dist.DistBackendError:  # if another rank was there before
            pass
        return ""
    with pytest.raises(dist.DistBackendError) as refused:
        dist.new_group([0, 1, 2])
    return str(refused.value)


def test_ranks_that_name_different_members_are_told():
    _, *told = run(3, unlike_members)
    for text in told:
        assert "mismatch" in text and "[0, 1]" in text and "[0, 1, 2]" in text, text


def unlike_lists(rank, size, lists):
    try:
        group = dist.new_group(lists[rank])
        if group != dist.GroupMember.NON_GROUP_MEMBER:
            for _ in range(2):
                dist.all_reduce(torch.ones(4), group=group)
        else:
            dist.barrier()
    except dist.DistBackendError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("lists, told", [([[0, 1], [0, 1, 2], [0, 1, 2]], (0, 1, 2)),  # one of them has fewer
                                         ([[0, 1], [0, 2], [0, 2]], (0, 2)),  # one that is named does not call
                                         ([[1, 2], [0, 1], [1, 2]], (1,)),  # nobody is the first of its list
                                         ([[0, 1], [1, 2], [1, 2]], (0,)),  # two are, of different ones
                                         ([[0, 1], [0, 1], [0, 2]], (2,)),  # one is, of two lists
                                         ([[0, 2], [1, 2], [0, 1, 2]], (0, 1, 2))])  # no two alike
def test_who_waits_in_a_group_that_others_made_of_other_ranks_hears_both_lists(lists, told):
    began = time.monotonic()
    texts = run(3, unlike_lists, lists)
    for rank in told:
        assert "mismatch" in texts[rank], (rank, texts)
        assert sum(str(list(one)) in texts[rank] for one in set(map(tuple, lists))) >= 2, (rank, texts)
    for rank, text in enumerate(texts):
        assert not text or "mismatch" in text or rank not in lists[rank], (rank, texts)
    assert time.monotonic() - began < 40, "far less than the group's timeout"


def started_again_with_more(rank, size, path):
    """As torchrun starts its workers again on the same store when a host joins, which it does not count as a restart."""
    os.environ |= {"TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": str(size)}
    store = dist.PrefixStore("group", dist.FileStore(path))  # not the default group's: Gloo finds its old addresses there
    group = fabring.torch._backend.create(store, rank, size, 60.0, "group", list(range(size)))
    tensor = torch.ones(2)
    group.allreduce([tensor]).wait()
    assert tensor.tolist() == [size, size]
    group.shutdown()


def test_a_group_of_more_ranks_on_the_store_of_fewer(tmp_path):
    for size in (2, 3, 2):
        run(size, started_again_with_more, str(tmp_path / "store"), backend="gloo")


def creation_costs_little(rank, size):
    dist.barrier()
    began = time.monotonic()
    for _ in range(100):
        dist.new_group()
    return time.monotonic() - began


def timeouts(rank, size):
    for timeout in (timedelta(microseconds=300), timedelta(0), timedelta.max):
        with pytest.raises(ValueError):
            dist.new_group(timeout=timeout)
    dist.barrier(dist.new_group(timeout=timedelta(days=100_000)))
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("fabring", store=store, rank=rank, world_size=size, timeout=timedelta(days=100_000))
    dist.barrier()


def test_timeouts_that_are_none_are_refused_and_long_ones_are_fine():
    run(2, timeouts)


def shortened(rank, size):
    """By what trainers call after the first step."""
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.5), dist.group.WORLD)
    began = time.monotonic()
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="gave up after 500 ms"):
            dist.all_reduce(torch.ones(3))
        assert time.monotonic() - began < 60
    else:
        with pytest.raises(RuntimeError):  # when rank 0 has given up
            dist.recv(torch.ones(1), 0)


def test_the_timeout_of_a_group_can_be_set_later():
    run(2, shortened)


def gloo_beside(rank, size):
    """The timeout of Gloo's part is Gloo's to set; groups of Gloo alone are as before."""
    both = dist.new_group(backend="gloo")
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=50), both)
    dist.barrier(both)


def named_by_device(rank, size):
    dist.monitored_barrier()
    on_gpus = dist.new_group(backend="cuda:fabring")
    beside_another = dist.new_group(backend="cpu:gloo,cuda:fabring")
    for group in (None, on_gpus, beside_another):
        assert "transport" in "".join(fabring.torch.report(group))
        assert fabring.torch.lost_rank(group) is None and fabring.torch.lost_ranks(group) == []
        dist.monitored_barrier(group)
    gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(gloo)
    with pytest.raises(ValueError, match="not fabring"):
        fabring.torch.report(gloo)


def test_groups_are_ours_on_whatever_devices():
    run(2, named_by_device, backend="cpu:fabring,cuda:fabring")


def test_timeouts_of_groups_of_other_backends_are_set_as_before():
    run(2, gloo_beside)


def test_a_hundred_groups_take_no_time():
    assert max(run(2, creation_costs_little)) < 20, "seconds, on a machine that does much else"


def bound(rank, size):
    """As init_process_group(device_id=...) leaves the default group, and as device meshes split it; without a GPU."""
    default = dist.distributed_c10d._get_default_group()
    default.bound_device_id = torch.device("cuda", 0)
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *_: torch.device("cuda")

    def expect(group, members):
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(members)

    # Some are in more groups than others, and PyTorch names what it splits off by how many those are.
    for members in ([0, 1], [1, 2, 3], [3]):
        group = dist.new_group(members)
        if rank in members:
            expect(group, members)
    for parts in ([[0, 2], [1, 3]], [[0, 1], [2, 3]], [[0, 1], [2, 3]]):
        group = dist.split_group(split_ranks=parts)
        expect(group, next(part for part in parts if rank in part))


def test_groups_of_one_that_is_bound_to_a_device():
    run(4, bound, backend="cpu:fabring,cuda:fabring")


def checked_first(rank, size):
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL PyTorch puts a wrapper around a backend that compares calls first."""
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    dist.init_process_group("fabring", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    default = dist.distributed_c10d._get_default_group()
    assert default._get_backend(torch.device("cpu")).wrapped_pg.name() == "fabring"
    group = dist.new_group([0, 1])
    for one in (None, group):
        tensor = torch.tensor([rank + 1])
        dist.all_reduce(tensor, group=one)
        assert tensor.item() == 3
        assert "transport" in "".join(fabring.torch.report(one)) and fabring.torch.lost_rank(one) is None
        dist.monitored_barrier(one)
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=50), group)
    if rank == 0:
        group = dist.shrink_group([1], group)
        assert dist.get_world_size(group) == 1
        dist.barrier(group)
    dist.barrier()


def test_groups_that_pytorch_checks_in_detail():
    run(2, checked_first)
