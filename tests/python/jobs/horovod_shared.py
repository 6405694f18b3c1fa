"""Rank 0 reduces the same memory twice in one operation, rank 1 does not, rank 2 has joined: 0 and 1 are refused alike, and all go
on."""

import fabring
import fabring.horovod as hvd
import torch
from fabring.horovod.requests import Request, Terms
from fabring.horovod.sharing import sharing

torch.set_num_threads(1)
hvd.init()
r = hvd.rank()


def refused(words, *handles):
    for handle in handles:
        try:
            hvd.synchronize(handle)
            raise SystemExit(f"not refused: {words}")
        except fabring.InvalidArgumentError as error:
            assert all(word in str(error) for word in words), error


def pairs_of(*calls):
    """Of calls with (inputs, outputs), named by their numbers."""
    made = [Request(f"{i}", Terms("allreduce", (), ()), *tensors) for i, tensors in enumerate(calls)]
    return {tuple(sorted(int(name) for name in pair)) for pair in sharing(made)}


memory = torch.zeros(100)
low, middle, high = memory[:40], memory[30:60], memory[60:]
assert pairs_of(([low], [low]), ([high], [high])) == set()
assert pairs_of(([low], [low]), ([middle], [middle]), ([high], [high])) == {(0, 1)}
assert pairs_of(([memory], [memory]), ([low], [low]), ([middle], [middle])) == {(0, 1), (0, 2), (1, 2)}
assert pairs_of(([low], [torch.empty(40)]), ([low], [torch.empty(40)])) == set(), "read only"
assert pairs_of(([memory], [torch.empty(100)]), ([middle], [torch.empty(30)]), ([high], [high])) == {(0, 2)}
assert pairs_of(([high], [high]), ([memory], [torch.empty(100)])) == {(0, 1)}
assert pairs_of(([low, high, low], [low, high, low])) == {(0, 0)}
assert pairs_of(([low[:0]], [low[:0]]), ([low], [low])) == set()

if r < 2:
    x = torch.ones(5)
    own = [x, x] if r == 0 else [torch.ones(5), torch.ones(5)]
    refused(["'allreduce.group'", "once"], hvd.grouped_allreduce_async_(own, name="group"))
    with hvd.global_process_set.negotiation()._changed:  # told in one round
        handles = [hvd.allreduce_async_(tensor, name=name) for name, tensor in zip(("first", "second"), own)]
    refused(["'allreduce.first' and 'allreduce.second'", "copy"], *handles)
    with hvd.global_process_set.negotiation()._changed:
        handles = [hvd.allreduce_async(x, name=name, op=hvd.Sum) for name in ("first", "second")]
    assert all((hvd.synchronize(handle) == 2).all() for handle in handles), "what is only read may be shared"
hvd.join()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 3
print(f"rank {r}: went on", flush=True)
