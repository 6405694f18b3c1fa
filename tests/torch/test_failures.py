"""Ranks that die, are late, or give up; and processes that go on after that."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fabring.torch
from ranks import run
from test_starts import create, store_of_rank_0

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from few_threads import as_root, few_threads  # noqa: E402

VICTIM = 2


def train_until_it_dies(rank, size):
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8)),
                                    bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = None
    try:
        for step in range(1000):
            if rank == VICTIM and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 5:
                began = time.monotonic()
            model(torch.randn(4, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - began
    return "nothing happened", 0


def test_every_survivor_of_a_dead_rank_names_it():
    answers = run(4, train_until_it_dies, killed=(VICTIM,), timeout_s=300)
    for rank in (0, 1, 3):
        text, seconds = answers[rank]
        assert "peer_lost" in text and f"rank {VICTIM} " in text and "died" in text, text
        assert seconds < 30, "at once, not when the timeout of 300 s is over"


def other_groups_go_on(rank, size):
    pair = dist.new_group([0, 1])
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError, match=f"rank {VICTIM}"):
        dist.barrier()
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=pair)
    assert tensor.item() == 2
    late = dist.new_group([0, 1], use_local_synchronization=True)  # made after it
    dist.all_reduce(tensor, group=late)
    assert tensor.item() == 4


def test_groups_without_the_dead_rank_go_on():
    run(3, other_groups_go_on, killed=(VICTIM,))


def a_late_rank(rank, size):
    group = dist.new_group(timeout=timedelta(milliseconds=300))
    if rank == 0:
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(torch.ones(1), group=group)
        text = str(caught.value)
        assert "timeout" in text and "300 ms" in text and "rank 1" in text, text
    dist.barrier()  # the default group has its own limit, and its own life
    if rank == 0:
        work = dist.barrier(async_op=True)
        with pytest.raises(dist.DistBackendError, match="is not done after the 50 ms given to wait"):
            work.wait(timedelta(milliseconds=50))
        dist.distributed_c10d._get_default_store().set("went on", "")
        assert work.wait()
    else:
        dist.distributed_c10d._get_default_store().wait(["went on"])
        dist.barrier()


def test_a_late_rank_is_named_after_the_timeout_of_the_group():
    run(2, a_late_rank)


def refused_on_rank_0(rank, size):
    """By this backend, before the library sees the call: who waits in it hears all the same. Not if it is made after all."""
    store = dist.distributed_c10d._get_default_store()
    collective, message, well = dist.new_group(), dist.new_group(), dist.new_group()
    told = []
    if rank == 0:
        for group in (collective, well):
            with pytest.raises(ValueError, match="bitwise_and of Float tensors has no meaning"):
                dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND, group)
        with pytest.raises(ValueError, match="is expanded"):
            dist.recv(torch.ones(1).expand(1 << 18), 1, message)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=well)
    assert tensor.item() == size
    if rank == 1:
        began = time.monotonic()
        for call in (lambda: dist.all_reduce(torch.ones(1), group=collective), lambda: dist.send(torch.ones(1 << 18), 0, message)):
            with pytest.raises(dist.DistBackendError) as caught:
                call()
            told.append(str(caught.value))
        assert time.monotonic() - began < 30, "not after the timeout of the group"
        store.set("heard", "")
    store.wait(["heard"])
    return told


def test_a_call_that_one_rank_refuses_is_told_to_who_waits_in_it():
    collective, message = run(2, refused_on_rank_0, timeout_s=300)[1]
    for text in (collective, message):
        assert "mismatch" in text and "rank 0 (host " in text and "and has not repeated it: " in text, text
    assert "refused its operation #1" in collective and "bitwise_and of Float tensors has no meaning" in collective, collective
    assert "refused a recv from rank 1" in message and "is expanded" in message, message


def aborted(rank, size):
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    if rank == 0:
        backend.abort()
    with pytest.raises(dist.DistBackendError, match="rank 0 called abort"):
        dist.barrier(group)
    dist.barrier()
    dist.destroy_process_group(group)


def test_abort_ends_the_group_everywhere_and_no_other():
    run(2, aborted)


def missing_at_the_start(rank, size):
    dist.destroy_process_group()
    if rank == 1:
        return ""
    store = dist.HashStore()
    with pytest.raises(dist.DistBackendError) as caught:
        dist.init_process_group("fabring", store=store, rank=0, world_size=3, timeout=timedelta(milliseconds=300))
    return str(caught.value)


def test_a_rank_that_does_not_come_is_named():
    text = run(2, missing_at_the_start)[0]
    assert "ranks 1 and 2 of 3 did not come within 300 ms" in text, text


def without_rank_0(rank, size):
    dist.destroy_process_group()
    if rank == 0:
        return ""
    os.environ["FABRING_RENDEZVOUS_TIMEOUT"] = "300ms"
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError) as caught:
        dist.init_process_group("fabring", store=dist.HashStore(), rank=1, world_size=2, timeout=timedelta(minutes=5))
    assert time.monotonic() - began < 5, "not when the group's timeout is over"
    return str(caught.value)


def test_the_limit_of_the_start_is_heeded_where_rank_0_does_not_come():
    text = run(2, without_rank_0)[1]
    assert "rank 0 of the group did not come within 300 ms (FABRING_RENDEZVOUS_TIMEOUT)" in text, text


def tries_again(rank, size):
    store = dist.PrefixStore("tries again", dist.distributed_c10d._get_default_store())

    def come(seconds):  # PyTorch numbers calls of init_process_group, of ranks that fail too
        return fabring.torch._backend.create(store, rank, size, seconds, "again", [])

    told = ""
    if rank != 2:  # which comes only when the others have given up
        # Together: the slower one's start may take longer than the first one's try.
        store.set(f"trying {rank}", "")
        store.wait(["trying 0", "trying 1"])
        with pytest.raises(dist.DistBackendError) as caught:
            come(0.3)
        told = str(caught.value)
    store.set(f"gave up {rank}", "")
    # Rank 0's first try would find the second one of a rank that gave up before, and tell that one that rank 2 is missing.
    store.wait(["gave up 0", "gave up 1"] if rank == 2 else ["gave up 0"])
    tensor = torch.ones(1)
    come(60).allreduce([tensor]).wait()
    assert tensor.item() == size
    return told


def test_a_start_is_tried_again_after_a_timeout():
    first, second, _ = run(3, tries_again)
    assert "rank 2 of 3 did not come within 300 ms" in first, first
    assert "rank 2 of 3" in second or "rank 0 of the group did not come" in second, second


def barriers(rank, size):
    dist.monitored_barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200), wait_all_ranks=True)
    dist.barrier()
    if rank != 1:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
    dist.barrier()


def test_monitored_barrier_names_who_is_missing():
    run(3, barriers)


def some_do_not_come(rank, size, wait_all, missing):
    if rank % 2 == 0:
        with pytest.raises(RuntimeError, match=f"{missing} failed to pass monitoredBarrier in 1000 ms"):
            dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=wait_all)
    dist.barrier()


@pytest.mark.parametrize("wait_all, missing", [(False, "Rank 1"), (True, "Ranks 1, 3")])
def test_monitored_barrier_names_all_who_are_missing_to_all_who_came_if_it_is_to(wait_all, missing):
    run(5, some_do_not_come, wait_all, missing)


def let_them_wait(store, count):
    """Returns when so many ranks but rank 0, which leaves no key, have come to a monitored barrier after store.wait(["come"])."""
    keys = store.num_keys() + 1
    store.set("come", "")
    began = time.monotonic()
    while store.num_keys() < keys + count:
        assert time.monotonic() - began < 30, "they do not come"


def hears_at_once(group, error=dist.DistBackendError):
    began = time.monotonic()
    with pytest.raises(error) as caught:
        group.monitored_barrier()
    assert time.monotonic() - began < 20, "not when the timeout of 60 s is over"
    return str(caught.value)


def dies_in_a_monitored_barrier(rank, size, victim, has_the_store):
    store = store_of_rank_0(rank) if has_the_store else dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    group = create(store, rank, size)
    group.barrier().wait()
    if rank == victim:
        let_them_wait(store, size - 1 - (victim != 0))
        os.kill(os.getpid(), signal.SIGKILL)
    store.wait(["come"])
    return [hears_at_once(group) for _ in ("while it waits", "known before")]


@pytest.mark.parametrize("victim, has_the_store", [(1, False), (0, False), (0, True)])
def test_monitored_barrier_names_a_dead_rank_at_once(victim, has_the_store):
    answers = run(3, dies_in_a_monitored_barrier, victim, has_the_store, killed=(victim,))
    for rank in {0, 1, 2} - {victim}:
        for text in answers[rank]:
            assert text.startswith(f"[Rank {rank}]: ") and f"peer_lost: rank {victim} " in text and "died" in text, text
            assert "frame #" not in text and "Exception raised" not in text, text


def ends_beside_a_monitored_barrier(rank, size, how):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    group = create(store, rank, size)
    if how == "mismatch":
        with pytest.raises(dist.DistBackendError, match="mismatch"):
            group.allreduce([torch.ones(3 + rank)]).wait()
        return [hears_at_once(group)]
    group.barrier().wait()
    if rank == 1:
        let_them_wait(store, size - 2)
        group.abort()
    else:
        store.wait(["come"])
    return [hears_at_once(group) for _ in ("while it waits", "known before")]


@pytest.mark.parametrize("how, why", [("abort", "aborted: rank 1 "), ("mismatch", "mismatch: ")])
def test_monitored_barrier_says_at_once_that_its_group_has_ended(how, why):
    for texts in run(3, ends_beside_a_monitored_barrier, how):
        assert all(f"the group has ended: fabring: {why}" in text for text in texts), texts


def the_store_of_a_monitored_barrier_ends(rank, size):
    """Not with a rank: rank 0 has a server beside the store that it uses."""
    meeting = dist.distributed_c10d._get_default_store()
    server = store_of_rank_0(rank)
    store = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    group = create(store, rank, size)
    group.barrier().wait()
    if rank == 0:
        let_them_wait(store, 1)
        del server
        return meeting.wait(["heard"])
    store.wait(["come"])
    text = hears_at_once(group, dist.DistNetworkError)
    meeting.set("heard", "")
    group.shutdown()  # the exception may keep it, and rank 0 waits for this rank's goodbye
    assert f"monitoredBarrier: the store at 127.0.0.1:{store.port}, which rank 0's process has unless" in text, text
    assert "frame #" not in text, text


def test_monitored_barrier_names_a_store_that_is_gone():
    run(2, the_store_of_a_monitored_barrier_ends)


def comes_when_it_is_over(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
        store.set("gave up", "")
    if rank == 2:
        store.wait(["gave up"])
        with pytest.raises(RuntimeError) as caught:
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
        store.set("heard", "")
        return str(caught.value)
    store.wait(["heard"])


def test_who_comes_late_to_a_monitored_barrier_hears_who_was_given_up_on():
    text = run(3, comes_when_it_is_over)[2]
    assert "rank 0 did not answer within 5200 ms; the one before was over when this rank came: Rank 1 failed to pass" in text, text


def barrier_of_a_short_group(rank, size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 2000 ms"):
            dist.monitored_barrier()
        store.set("gave up", "")
    store.wait(["gave up"])
    dist.monitored_barrier()


def test_monitored_barrier_takes_the_timeout_of_its_group():
    run(2, barrier_of_a_short_group, timeout_s=2, limit_s=60)


def barriers_leave_no_keys(rank, size):
    store = dist.distributed_c10d._get_default_store()

    def keys_after(count):
        for _ in range(count):
            dist.monitored_barrier()
        dist.barrier()
        keys = store.num_keys()
        dist.barrier()
        return keys

    few = keys_after(5)
    if rank == 0:  # what it said to those who are missing goes when they have passed a later one
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=50), wait_all_ranks=True)
    dist.barrier()
    assert keys_after(50) == few


def test_monitored_barriers_leave_no_keys_behind():
    run(3, barriers_leave_no_keys)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        for communicate in (dist.barrier, dist.new_group):  # of its parent, by its parent's store: refused, not deadlocked
            with pytest.raises(RuntimeError, match=r"child of fork\(\)"):
                communicate()
        return torch.tensor([index * index])


def loads_data(rank, size):
    dist.barrier()
    seen = 0
    for _ in range(2):  # workers end, and others begin
        for batch in torch.utils.data.DataLoader(Squares(), batch_size=16, num_workers=2,
                                                 multiprocessing_context="fork"):
            total = batch.sum()
            dist.all_reduce(total)
            seen += total.item()
    return seen


def test_data_loaders_that_fork():
    assert run(2, loads_data) == [2 * 2 * sum(i * i for i in range(64))] * 2


def loads_on_one_rank(rank, size):
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    if rank == 1:
        keys = store.num_keys()
        assert in_a_child(dist.new_group) == REFUSED
        assert store.num_keys() == keys, "what a child of fork() says there its parent would have said"
    dist.barrier()
    group = dist.new_group()
    dist.monitored_barrier(group, timeout=timedelta(seconds=20))


def test_a_child_of_fork_says_nothing_by_its_parents_store():
    run(2, loads_on_one_rank)


def child_of_fork(store, rank, size):
    dist.init_process_group("fabring", init_method=f"file://{store}", rank=rank, world_size=size)
    for _ in range(3):
        tensor = torch.ones(1000)
        done = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])
        assert done.wait()[0].item() == size
    dist.barrier(dist.new_group())
    dist.destroy_process_group()


def forks(rank, size, folder):
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(10)]
    works[-1].wait()
    dist.destroy_process_group()
    child = multiprocessing.get_context("fork").Process(target=child_of_fork, args=(f"{folder}/children", rank, size))
    child.start()
    child.join(60)
    assert child.exitcode == 0, "a child of a process that has no group any more is free to make one"
    dist.init_process_group("fabring", init_method=f"file://{folder}/parents", rank=rank, world_size=size)
    dist.barrier()


@pytest.mark.parametrize("transport", ["auto", "fabric", "tcp"])
def test_a_child_of_fork_may_make_its_own_group(tmp_path, transport):
    run(2, with_transport, transport, forks, str(tmp_path))


def with_transport(rank, size, transport, function, *arguments):
    os.environ["FABRING_TRANSPORT"] = transport
    return function(rank, size, *arguments)


REFUSED, DONE, OTHERWISE = 3, 4, 5


def in_a_child(call):
    """What becomes of a call in a child of fork(); one that hangs is ended by SIGALRM."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        code = OTHERWISE
        try:
            call()
            code = DONE
        except RuntimeError as error:
            code = REFUSED if "child of fork()" in str(error) else OTHERWISE
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def what_the_parent_made(rank, size):
    over = dist.all_reduce(torch.ones(3), async_op=True)
    over.wait()
    dist.barrier()
    if rank == 0:
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        under_way = dist.irecv(torch.ones(1), 1)
        refused = {f"{name} of one that is {when}": getattr(work, name)
                   for name in ("wait", "is_completed", "is_success", "synchronize", "get_future")
                   for when, work in (("over", over), ("under way", under_way))}
        refused |= {"abort": backend.abort, "report": fabring.torch.report, "monitored_barrier": dist.monitored_barrier,
                    "irecv": lambda: dist.irecv(torch.ones(1), 1)}
        harmless = {"destroy_process_group": dist.destroy_process_group, "result": over.result, "nothing": lambda: None}
        became = {name: in_a_child(call) for name, call in (refused | harmless).items()}
        dist.send(torch.ones(1), 1)
        under_way.wait()
        return became, {name: REFUSED if name in refused else DONE for name in became}
    dist.recv(torch.ones(1), 0)
    dist.send(torch.ones(1), 0)


def test_a_child_of_fork_is_refused_what_its_parent_made():
    became, wanted = run(2, what_the_parent_made)[0]
    assert became == wanted


def just_ends(pipe, store, rank, size, end):
    dist.init_process_group("fabring", init_method=f"file://{store}", rank=rank, world_size=size)
    if rank == 1:
        dist.barrier()
        if end == "raise":
            raise RuntimeError("no such file: data.pt")
        return
    with pytest.raises(dist.DistBackendError) as caught:
        dist.barrier()  # of which rank 1 may know first that it is over
        dist.all_reduce(torch.ones(10))
    pipe.send(str(caught.value))


@pytest.mark.parametrize("end, words", [("return", "has left the job without calling #"),
                                        ("raise", "its program ended by RuntimeError: no such file: data.pt")])
def test_a_process_of_multiprocessing_that_just_ends_says_goodbye(tmp_path, end, words):
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    ranks = [context.Process(target=just_ends, args=(theirs, tmp_path / "store", rank, 2, end)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    try:
        assert ours.poll(60), "rank 0 gave no answer"
        text = ours.recv()
    finally:
        for rank in ranks:
            rank.join(30)
            rank.kill()
    assert words in text, text


def installed(folder):
    """A folder from which torch finds our entry point; a Python that looks for packages there first."""
    import fabring

    autoload = pathlib.Path(fabring.__file__).parent.parent / "fabring_torch_autoload.py"
    (folder / autoload.name).symlink_to(autoload.resolve())
    about = folder / "fabring_here-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fabring-here\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[torch.backends]\nfabring = fabring_torch_autoload:register\n")

    def python(code, *options):
        return subprocess.run([sys.executable, *options, "-c", code], env={**os.environ, "PYTHONPATH": str(folder)},
                              capture_output=True, text=True, timeout=120)

    return python


PLAIN = "import torch; print(torch.ones(2).sum().item())"
ASKED = "import torch.distributed as d\nd.init_process_group('fabring', init_method='file://%s', rank=0, world_size=1)"


def test_a_package_without_the_backend_says_so_when_it_is_asked_for(tmp_path):
    """As `pip install .` leaves it, which builds where there is no torch: torch works, and the backend names the remedy."""
    import fabring

    package = tmp_path / "fabring"
    package.mkdir()
    for file in pathlib.Path(fabring.__file__).parent.iterdir():
        if file.name != "torch":
            (package / file.name).symlink_to(file.resolve())
    (package / "torch").symlink_to(pathlib.Path(__file__).parents[2] / "bindings/torch/without/torch")
    python = installed(tmp_path)
    plain = python(PLAIN)
    assert plain.stdout == "2.0\n" and plain.stderr == "", plain.stderr
    for code in (ASKED % (tmp_path / "store"), "import fabring.torch"):
        asked = python(code)
        assert asked.returncode != 0 and "--no-build-isolation" in asked.stderr, asked.stderr


def test_the_backend_of_another_torch_says_how_to_build_it_again(tmp_path):
    """--no-deps: pip would install all that the package depends on anew, and maybe another torch."""
    import fabring.torch

    for folder in (pathlib.Path(fabring.__file__).parent, pathlib.Path(fabring.torch.__file__).parent):
        package = tmp_path / "fabring" / ("torch" if folder.name == "torch" else "")
        package.mkdir()
        for file in folder.iterdir():
            if file.name not in ("torch", "_built_for.py", "__pycache__"):
                (package / file.name).symlink_to(file.resolve())
    (tmp_path / "fabring" / "torch" / "_built_for.py").write_text('torch = "1.0.0"\n')
    plain = installed(tmp_path)(PLAIN)
    assert plain.stdout == "2.0\n" and "built for torch 1.0.0" in plain.stderr, plain.stderr
    assert "--no-build-isolation --force-reinstall --no-deps ." in plain.stderr, plain.stderr


@pytest.mark.parametrize("what, error", [("fabring", "OSError"), ("fabring", "ModuleNotFoundError"),
                                         ("fabring/torch", "RuntimeError")])
def test_torch_can_be_imported_where_the_package_cannot(tmp_path, what, error):
    for folder in ("fabring", "fabring/torch"):
        (tmp_path / folder).mkdir()
        text = f"raise {error}('libcrypto.so.3: cannot open')\n" if folder == what else ""
        (tmp_path / folder / "__init__.py").write_text(text)
    python = installed(tmp_path)
    for options in ((), ("-W", "error")):
        plain = python(PLAIN, *options)
        assert plain.stdout == "2.0\n", plain.stderr
        assert "the backend 'fabring' is not available" in plain.stderr and "libcrypto.so.3" in plain.stderr, plain.stderr
    asked = python(ASKED % (tmp_path / "store"))
    assert asked.returncode != 0 and f"not available: {error}: libcrypto.so.3" in asked.stderr.split("Traceback")[-1], asked.stderr


def begin_works(rank, size, more):
    """A work that has a thread to finish it is finished, with a spare or without."""
    dist.all_reduce(torch.ones(3))  # the engine is there
    with few_threads(more):
        work = dist.all_reduce(torch.ones(3), async_op=True)
        if more == 1:  # none is left for who drives what nobody waits for
            work.wait()
        assert work.get_future().wait()[0].tolist() == [1, 1, 1]
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, []), "its own threads block signals, the program's do not"

    def and_another(done):  # needs a spare thread
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    assert dist.all_reduce(torch.ones(3), async_op=True).get_future().then(and_another).wait().tolist() == [1, 1, 1]


@pytest.mark.skipif(not as_root, reason="only root can leave a process some threads")
@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_work_needs_one_thread_at_most(more):
    run(1, begin_works, more)


def begin_a_work_without_threads(rank, size):
    dist.all_reduce(torch.ones(3))  # the engine is there
    dist.monitored_barrier()  # on both ranks
    if rank == 0:
        with few_threads(), pytest.raises(dist.DistBackendError) as refused:
            dist.all_reduce(torch.ones(3), async_op=True)
        assert "unavailable" in str(refused.value) and "ulimit -u" in str(refused.value), refused.value
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(dist.DistBackendError) as heard:
        dist.all_reduce(torch.ones(3))
    assert "rank 0" in str(heard.value) and "ulimit -u" in str(heard.value), heard.value


def test_a_limit_on_threads_is_named_on_all_ranks_and_ends_no_process():
    """Also where the program goes on: it would be one call behind the others."""
    run(2, begin_a_work_without_threads)


def splits_on_one_rank(rank, size):
    sizes = [2] * size if rank == 0 else None
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_to_all_single(torch.empty(2 * size), torch.ones(2 * size), sizes, sizes)
    assert "mismatch" in str(caught.value) and "give one on all ranks, or on none" in str(caught.value), str(caught.value)


def test_split_sizes_on_one_rank_only_raise_what_to_do():
    run(2, splits_on_one_rank)
