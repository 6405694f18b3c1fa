"""fabring.horovod on CUDA tensors: what begins when, what is over when, and whose memory is whose; ranks may share a GPU.

    fabring run -n 2 -- python tests/gpu/horovod.py [cuda|cpu]

Run from run.sh; on the host's memory, where streams are nothing, from tests/python.
"""
import contextlib
import sys

import torch

import fabring.horovod as hvd

cuda = sys.argv[1:] != ["cpu"]
hvd.init()
rank, size = hvd.rank(), hvd.size()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
everybody = size * (size + 1) // 2  # the sum of rank + 1


def stream():
    return torch.cuda.Stream() if cuda else None


def on(stream):
    return torch.cuda.stream(stream) if cuda else contextlib.nullcontext()


def late(value, count):
    """A tensor whose value is there only when slow work of the current stream is done."""
    made = torch.zeros(count, device=device)
    if cuda:
        torch.cuda._sleep(50_000_000)
    made += value
    return made


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except hvd.HorovodInternalError as error:
        assert all(word in str(error) for word in words), error
        return
    raise SystemExit(f"not refused: {words}")


# Behind slow work of the caller's stream, small and large, in place and not; over for every stream when it was waited for.
for count in (5, 3000, 3_000_000):
    with on(stream()):
        inside = late(rank + 1, count)
        assert hvd.allreduce_(inside, op=hvd.Sum) is inside
        outside = hvd.allreduce(late(rank + 1, count), op=hvd.Sum)
        turned = late(rank + 1, 3 * count).view(3, count).t()
        hvd.allreduce_(turned, op=hvd.Sum)
        scaled = hvd.allreduce(late(rank + 1, count), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    with on(stream()):
        results = [result.cpu() for result in (inside + 0, outside + 0, turned + 0, scaled / 2)]
    for result in results:
        assert torch.all(result == everybody), (count, result)

# Several under way, each called on a stream of its own, fused by names; the last is waited for first.
begun = []
for number in range(8):
    with on(stream()):
        begun.append(hvd.allreduce_async(late((rank + 1) * 10**number, 1000 + number), name=f"n{number}", op=hvd.Sum))
for number, handle in reversed(list(enumerate(begun))):
    assert torch.all(hvd.synchronize(handle).cpu() == everybody * 10**number), number

# Work that the stream is given later does not hold up what is under way. Large enough not to be fused.
if cuda:
    ones = [torch.ones(600, 700, device=device) for _ in range(3)]
    hvd.allreduce(ones[0])
    begun = [hvd.allreduce_async_(ones[0], name="first", op=hvd.Sum), hvd.allreduce_async_(ones[1].t(), name="turned", op=hvd.Sum)]
    torch.cuda._sleep(2_000_000_000)
    behind = torch.cuda.current_stream().record_event()
    begun.append(hvd.allreduce_async_(ones[2], name="behind", op=hvd.Sum))
    for handle in begun[:2]:
        hvd.synchronize(handle)
    assert not behind.query(), "an allreduce waited for what came after it"
    hvd.synchronize(begun[2])
    assert all(torch.all(one == size) for one in ones)

# Memory of results that are dropped while the stream still reads them is not given to others before.
for _ in range(20):
    gathered = hvd.allgather(torch.full((1 << 16,), float(rank), device=device))
    if cuda:
        torch.cuda._sleep(2_000_000)
    copied = gathered + 0
    del gathered
    again = hvd.allgather(torch.full((1 << 16,), 7.0, device=device))
    assert torch.equal(copied.view(size, -1)[:, 0].cpu(), torch.arange(float(size))), copied
    assert torch.all(again.cpu() == 7)

# Of a group the large tensors go by themselves and the small ones together.
several = [late(rank + 1, count) for count in (1, 700, 70_000, 300_000, 1_000_000)]
hvd.grouped_allreduce_(several, op=hvd.Sum)
assert all(torch.all(tensor == everybody) for tensor in several)

# A rank that has joined adds zeros, from its GPU or from the host; GPU and host are not confused.
if rank == 0:
    assert hvd.join() >= 0
else:
    assert torch.all(hvd.allreduce(late(rank + 1, 400_000), op=hvd.Sum) == everybody - 1)
    assert torch.all(hvd.allreduce(late(rank + 1, 40), op=hvd.Sum) == everybody - 1)
    assert hvd.join() >= 0
if cuda:
    refused(["on cpu", "on cuda", "rank 0"], hvd.allreduce, torch.ones(2, device=device if rank else "cpu"), name="where")
    refused(["on cuda", "on cpu"], hvd.grouped_allreduce, [torch.ones(2, device=device), torch.ones(2)])

# An optimizer with a state on the GPU, and half the bytes.
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters())
if rank == 0:
    model(torch.ones(1, 64, device=device)).sum().backward()
    optimizer.step()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert all(value["exp_avg"].device == device for value in optimizer.state_dict()["state"].values())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16)
for step in range(10):
    optimizer.zero_grad()
    model(torch.randn(16, 64, device=device)).square().mean().backward()
    optimizer.step()
told = hvd.allgather_object([parameter.tolist() for parameter in model.parameters()])
assert all(one == told[0] for one in told)
if rank == 0:
    print(f"fabring.horovod on {size} ranks ({device.type}): all right")
hvd.shutdown()
