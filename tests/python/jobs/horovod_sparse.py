"""Sparse gradients through DistributedOptimizer: what all ranks get equals one process that has all the data."""

import copy

import fabring
import fabring.horovod as hvd
import torch
from horovod_device import choose
from torch import nn

torch.set_num_threads(1)
hvd.init()
choose()
r, n = hvd.rank(), hvd.size()


class Words(nn.Module):
    """An embedding, in a bucket with dense parameters unless it is alone."""

    def __init__(self, alone):
        super().__init__()
        self.table = nn.Embedding(30, 4, sparse=True)
        self.layer = nn.Identity() if alone else nn.Linear(4, 2)

    def forward(self, words):
        return self.layer(self.table(words))


def train(model, optimizer, own, passes):
    """Each rank has words of its own, the last one none in the last step but one."""
    for step in range(6):
        words = [torch.arange(step, step + 6) * (rank + 2) % 30 for rank in range(n)]
        parts = [own] if own is not None else range(n)
        left = [rank for rank in parts if (rank, step) != (n - 1, 4)]
        if left:
            (sum(model(words[rank]).square().sum() for rank in left) / len(parts)).backward()
        elif passes > 1:  # a pass of its own nevertheless
            model(words[0][:0]).square().sum().backward()
        if (step + 1) % passes == 0:
            optimizer.step()
            optimizer.zero_grad()
    return list(model.parameters())


def compare(make, alone, passes=1, **options):
    torch.manual_seed(1)
    model = Words(alone).double()
    alike = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    got = train(model, optimizer, r, passes)
    expected = train(alike, make(alike.parameters()), None, passes)
    tolerance = 1e-2 if "compression" in options else 1e-12
    for one, other in zip(got, expected):
        torch.testing.assert_close(one.detach(), other.detach(), rtol=tolerance, atol=tolerance)


def gathered(**options):
    compare(lambda parameters: torch.optim.SGD(parameters, lr=0.05), False, **options)
    compare(lambda parameters: torch.optim.SGD(parameters, lr=0.05), False, passes=2, gradient_predivide_factor=2.0, **options)
    compare(lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.05), True, **options)


def as_dense():
    gathered(sparse_as_dense=True)
    gathered(sparse_as_dense=True, compression=hvd.Compression.fp16)


def not_everywhere():
    """Sparse on rank 0, never there elsewhere: nobody can know there that it would be sparse. All hear of it."""
    for alone in (True, False):
        model = Words(alone)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        if r == 0:
            model(torch.tensor([3])).sum().backward()
        try:
            optimizer.step()
            raise SystemExit("not refused")
        except fabring.MismatchError:
            pass


def each_elsewhere():
    """Of two tables of one shape each is sparse on some ranks and missing on others, so that all have as many of either."""
    tables = nn.ModuleList(nn.Embedding(30, 4, sparse=True) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tables.parameters(), lr=0.1))
    tables[r % 2](torch.tensor([3])).sum().backward()
    try:
        optimizer.step()
        raise SystemExit("not refused")
    except fabring.MismatchError:
        pass


for check in (gathered, as_dense, not_everywhere, each_elsewhere):
    check()
    print(f"rank {r}: {check.__name__} ok", flush=True)
