"""DistributedOptimizer, join and SyncBatchNorm: what all ranks get equals one process that has all the data."""

import copy
import os
import warnings

import fabring.horovod as hvd
import torch
from horovod_device import choose
from torch import nn

torch.set_num_threads(1)
hvd.init()
choose()
r, n = hvd.rank(), hvd.size()
PROCESS = os.getpid()
torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
DATA = torch.randn(4, 4 * n, 6, dtype=torch.float64)  # steps, samples of all ranks
mine = slice(4 * r, 4 * r + 4)


def loss_of(model, x):
    return model(x).square().mean()


def alone(passes=1, scale=1.0, clip=None):
    """The parameters after training with all the data."""
    model = copy.deepcopy(MODEL)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step, x in enumerate(DATA):
        (scale * loss_of(model, x)).backward()
        if (step + 1) % passes == 0:
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    return list(model.parameters())


def together(passes=1, clip=None, model=None, **options):
    model = model or copy.deepcopy(MODEL)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
                                         named_parameters=model.named_parameters(), backward_passes_per_step=passes, **options)
    for step, x in enumerate(DATA):
        loss_of(model, x[mine]).backward()
        if (step + 1) % passes == 0:
            if clip:
                optimizer.synchronize()
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
            optimizer.zero_grad()
    return list(model.parameters())


def same(got, expected, tolerance=1e-12):
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=tolerance, atol=tolerance)


def optimizers():
    same(together(), alone())
    same(together(passes=2), alone(passes=2))
    same(together(op=hvd.Sum), alone(scale=n))
    same(together(gradient_predivide_factor=4.0), alone())
    same(together(clip=0.01), alone(clip=0.01))
    same(together(compression=hvd.Compression.fp16), alone(), tolerance=5e-3)
    same(together(groups=2), alone())
    same(together(num_groups=3), alone())
    model = copy.deepcopy(MODEL)
    same(together(model=model, groups=[list(model[0].parameters())]), alone())


def scheduled(before, after, wrap):
    """With learning rates of schedulers that were made before and after the optimizer was wrapped."""
    model = copy.deepcopy(MODEL)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)] if before else []
    optimizer = wrap(optimizer)
    if after:
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.3))
    for step, x in enumerate(DATA):
        optimizer.zero_grad()
        loss_of(model, x if wrap is unchanged else x[mine]).backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        if step == 1:  # as from a checkpoint: the schedulers' rates are still those that count
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return list(model.parameters())


def unchanged(optimizer):
    return optimizer


def schedulers():
    for before, after in ((True, False), (False, True), (True, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch looks whether step() is called before the scheduler's
            same(scheduled(before, after, hvd.DistributedOptimizer), scheduled(before, after, unchanged))


def wrapped_again():
    """In the middle of training, around a new optimizer, around the one before or around what was made of it: the gradients are
    reduced once."""
    for around in ("new", "before", "distributed"):
        model, alike = copy.deepcopy(MODEL), copy.deepcopy(MODEL)
        plain = torch.optim.SGD(alike.parameters(), lr=0.2, momentum=0.9)
        optimizer = inner = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        for step, x in enumerate(DATA):
            if step % 2 == 0:
                if step and around == "new":
                    plain = torch.optim.SGD(alike.parameters(), lr=0.2, momentum=0.9)
                    inner = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
                optimizer = hvd.DistributedOptimizer(optimizer if around == "distributed" else inner, op=hvd.Sum)
            optimizer.zero_grad()
            plain.zero_grad()
            loss_of(model, x[mine]).backward()
            (n * loss_of(alike, x)).backward()
            optimizer.step()
            plain.step()
        same(model.parameters(), alike.parameters())


def shared_weights():
    """A parameter that two modules share comes under both names, and is reduced once."""
    model, alike = (nn.ModuleDict({"encoder": nn.Linear(6, 6), "decoder": nn.Linear(6, 6)}).double() for _ in range(2))
    for one in (model, alike):
        one["decoder"].weight = one["encoder"].weight
    alike.load_state_dict(model.state_dict())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(alike.state_dict(), root_rank=0)
    named = [pair for part in model for pair in model[part].named_parameters(prefix=part)]
    assert len(named) == 4
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=named)
    plain = torch.optim.SGD(alike.parameters(), lr=0.1)
    for x in DATA:
        for one, optimizer_of, share in ((model, optimizer, x[mine]), (alike, plain, x)):
            optimizer_of.zero_grad()
            loss_of(lambda given: one["decoder"](one["encoder"](given).tanh()), share).backward()
            optimizer_of.step()
    same(model.parameters(), alike.parameters())


class Doubling(hvd.Compressor):
    """A compression of the user's own, that keeps the shape in mind."""

    @staticmethod
    def compress(tensor):
        return (tensor * 2).reshape(-1), tensor.shape

    @staticmethod
    def decompress(tensor, context):
        return (tensor / 2).reshape(context)


class Branches(nn.Module):
    """Uses its layers in another order on every rank, and one of them on rank 0 only."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3, bias=False) for _ in range(6))
        self.extra = nn.Linear(3, 3, bias=False)

    def forward(self, x, order, with_extra):
        for i in order:
            x = x + self.layers[i](x)
        return x + self.extra(x) if with_extra else x


def orders_that_differ():
    same(together(compression=Doubling), alone())
    torch.manual_seed(3)
    model = Branches().double()
    alike = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), groups=7)
    orders = [torch.randperm(6, device="cpu", generator=torch.Generator().manual_seed(rank)).tolist() for rank in range(n)]
    x = torch.randn(n, 5, 3, dtype=torch.float64)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(lambda one: model(one, orders[r], r == 0), x[r]).backward()
        optimizer.step()
    plain = torch.optim.Adam(alike.parameters())
    for _ in range(3):
        plain.zero_grad()
        (sum(loss_of(lambda one: alike(one, orders[i], i == 0), x[i]) for i in range(n)) / n).backward()
        plain.step()
    same(model.parameters(), alike.parameters(), tolerance=1e-9)


def misuse():
    model = copy.deepcopy(MODEL)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    assert isinstance(optimizer, torch.optim.SGD)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    loss_of(model, DATA[0][mine]).backward()
    for call in (optimizer.zero_grad, lambda: loss_of(model, DATA[0][mine]).backward()):
        try:
            call()
            raise SystemExit("not refused")
        except AssertionError:
            pass
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(one.message) for one in caught)
    for named in ([("a", torch.ones(1))], [("a", p) for p in model.parameters()], list(model.parameters())):
        try:
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=named)
            raise SystemExit("not refused")
        except ValueError:
            pass


def starting_alike():
    torch.manual_seed(r)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (r + 1))
    if r == 0:
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    told = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert all(one == told[0] for one in told)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1 and len(state["state"]) == 4
    told = hvd.allgather_object([value["exp_avg"].tolist() for value in state["state"].values()])
    assert all(one == told[0] for one in told)


def of_some_ranks():
    """An optimizer of a process set is made by its members only, which may make those of several models in any order."""
    first = hvd.add_process_set([0, 1])
    models = {name: copy.deepcopy(MODEL) for name in ("experts", "trunk", "head")}
    order = ("trunk", "head") if r == 0 else ("head", "trunk")
    made = {}
    for name in (("experts",) if first.included() else ()) + order:
        model = models[name]
        made[name] = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.2),
                                              named_parameters=model.named_parameters(prefix=name),
                                              process_set=first if name == "experts" else hvd.global_process_set)
    for x in DATA:
        for name, optimizer in sorted(made.items()):
            optimizer.zero_grad()
            loss_of(models[name], x[mine]).backward()
            optimizer.step()
    for name, ranks in (("trunk", n), ("head", n), ("experts", 2)):
        if name not in made:
            continue
        alike = copy.deepcopy(MODEL)
        plain = torch.optim.SGD(alike.parameters(), lr=0.2)
        for x in DATA:
            plain.zero_grad()
            loss_of(alike, x[:4 * ranks]).backward()
            plain.step()
        same(models[name].parameters(), alike.parameters())
    hvd.remove_process_set(first)


def joining():
    """Rank r has r + 1 batches."""
    model = copy.deepcopy(MODEL)
    alike = copy.deepcopy(MODEL)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.2))
    for step in range(r + 1):
        optimizer.zero_grad()
        loss_of(model, DATA[step % 4][mine]).backward()
        optimizer.step()
    assert hvd.join() == n - 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=n - 1)
    plain = torch.optim.SGD(alike.parameters(), lr=0.2)
    for step in range(n):
        plain.zero_grad()
        (sum(loss_of(alike, DATA[step % 4][4 * i:4 * i + 4]) for i in range(step, n)) / n).backward()
        plain.step()
    same(model.parameters(), alike.parameters())
    if r == 0:
        assert hvd.join() == n - 1
    else:
        try:
            hvd.allgather(torch.ones(1), name="while 0 has joined")
            raise SystemExit("not refused")
        except hvd.HorovodInternalError as error:
            assert "joined" in str(error)
        assert hvd.join() == n - 1
    assert hvd.allreduce(torch.ones(1)).item() == 1  # and all goes on


def joining_without_names():
    """Rank r has r + 1 batches, twice; a rank's zeros for the others' calls are none of its own calls."""
    for _ in range(2):
        sync, plain = hvd.SyncBatchNorm(6).double(), nn.BatchNorm1d(6).double()
        for step in range(r + 1):
            own = DATA[step % 4][mine].clone().requires_grad_()
            those_left = DATA[step % 4][4 * step:].clone().requires_grad_()
            (sync(own) ** 3).sum().backward()
            (plain(those_left) ** 3).sum().backward()
            torch.testing.assert_close(own.grad, those_left.grad[4 * (r - step):4 * (r - step) + 4])
            assert hvd.allreduce(torch.tensor(float(r)), op=hvd.Sum).item() == sum(range(step, n))
        begun = hvd.allreduce_async(torch.ones(1), op=hvd.Sum) if r == n - 1 else None
        hvd.join()
        assert begun is None or hvd.synchronize(begun).item() == 1  # the others have joined without it
        assert hvd.allreduce(torch.ones(1)).item() == 1
        assert hvd.allgather(torch.tensor([r])).tolist() == list(range(n))


def batch_norm():
    torch.manual_seed(5)
    x = torch.randn(3 * n + 1, 4, 2, dtype=torch.float64)
    own = x[3 * r:3 * r + 3 + (r == n - 1)].clone().requires_grad_()
    whole = x.clone().requires_grad_()
    sync, plain = hvd.SyncBatchNorm(4).double(), nn.BatchNorm1d(4).double()
    (sync(own) ** 3).sum().backward()
    (plain(whole) ** 3).sum().backward()
    torch.testing.assert_close(own.grad, whole.grad[3 * r:3 * r + 3 + (r == n - 1)])
    torch.testing.assert_close(hvd.allreduce(sync.weight.grad, op=hvd.Sum), plain.weight.grad)
    torch.testing.assert_close(sync.running_mean, plain.running_mean)
    torch.testing.assert_close(sync.running_var, plain.running_var)
    torch.testing.assert_close(sync.eval()(own), plain.eval()(own))


def batch_norm_in_half_types():
    """More elements of a channel than float16 can count, and under autocast: as torch.nn.BatchNorm with the whole batch."""
    torch.manual_seed(6)
    for type in (torch.float16, torch.bfloat16):
        x = (2 * torch.randn(n, 3, 70_000) + 1).to(type)
        compare(x, 3, 5e-3 if type == torch.float16 else 4e-2, 1e-4)
    with torch.autocast(x.device.type, torch.bfloat16):
        compare(torch.randn(4 * n, 3, 8).bfloat16(), 3, 4e-2, 1e-4)
        compare(torch.randn(4 * n, 3, 8), 3, 1e-5, 1e-5)


def compare(x, channels, tolerance, of_sums):
    share = slice(r * x.shape[0] // n, (r + 1) * x.shape[0] // n)
    own, whole = x[share].clone().requires_grad_(), x.clone().requires_grad_()
    sync, plain = hvd.SyncBatchNorm(channels), nn.BatchNorm1d(channels)
    results = [norm(one) for norm, one in ((sync, own), (plain, whole))]
    assert results[0].dtype == results[1].dtype and results[0].isfinite().all()
    torch.testing.assert_close(results[0], results[1][share], rtol=tolerance, atol=tolerance)
    for result, of in zip(results, (x[share], x)):
        (result.float() * of.float().cos()).sum().backward()
    torch.testing.assert_close(own.grad, whole.grad[share], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(sync.running_mean, plain.running_mean, rtol=of_sums, atol=of_sums)
    torch.testing.assert_close(sync.running_var, plain.running_var, rtol=of_sums, atol=of_sums)


class WhoAsks(torch.utils.data.Dataset):
    """What hvd says in a worker, and whether it refuses a collective there."""

    def __len__(self):
        return 2

    def __getitem__(self, _):
        try:
            hvd.allreduce(torch.ones(1))
            refused = False
        except hvd.HorovodInternalError:
            refused = True
        return (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(),
                hvd.is_homogeneous(), os.getpid() != PROCESS and refused)


def data_loaders():
    """Whose workers are forks of a rank."""
    torch.set_default_device("cpu")
    for told in torch.utils.data.DataLoader(WhoAsks(), num_workers=1, multiprocessing_context="fork"):
        assert [one.item() for one in told] == [r, n, r, n, 0, 1, True, True], told
    samples = torch.utils.data.TensorDataset(DATA.cpu().reshape(-1, 6))
    shares = torch.utils.data.distributed.DistributedSampler(samples, num_replicas=n, rank=r, shuffle=False)
    model = copy.deepcopy(MODEL)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for (x,) in torch.utils.data.DataLoader(samples, batch_size=4, sampler=shares, num_workers=1):
        optimizer.zero_grad()
        loss_of(model, x.to(DATA.device)).backward()
        optimizer.step()
    told = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert all(one == told[0] for one in told)


for check in (optimizers, schedulers, wrapped_again, shared_weights, of_some_ranks, orders_that_differ, misuse, starting_alike,
              joining, joining_without_names, batch_norm, batch_norm_in_half_types, data_loaders):
    check()
    print(f"rank {r}: {check.__name__} ok", flush=True)
