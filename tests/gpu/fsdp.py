"""FSDP2 on CUDA tensors, gradient by gradient against the same training alone; every rank may share one GPU.

    torchrun --nproc-per-node 4 tests/gpu/fsdp.py [--device cpu]

Run from run.sh; on the host's memory from tests/torch. Exit code 1 if a gradient or a parameter differs by more than rounding.
"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import fabring.torch  # noqa: F401

parser = argparse.ArgumentParser()
parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
kind = parser.parse_args().device
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cpu")
if kind == "cuda":
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
dist.init_process_group("fabring")

WIDTH, BLOCKS, ROWS, STEPS, MICRO_BATCHES = 50, 4, 6, 4, 2  # 50 rows of weights: no even share of 3 or 4 ranks


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def network(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), *(Block() for _ in range(BLOCKS)),
                               torch.nn.Linear(WIDTH, 7)).to(device)


def batch(step, micro_batch, of_rank):
    generator = torch.Generator().manual_seed(1000 * step + 10 * micro_batch + of_rank)
    return torch.randn(ROWS, WIDTH, generator=generator).to(device)


def loss_of(model, data):
    return model(data).float().square().mean()


def optimizer_of(model):  # none that makes much of what rounding leaves of a gradient of nought, as Adam does
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


class Alone:
    """The same training without FSDP: the gradients of all ranks' data, each reckoned in `dtype`, summed in float32."""

    def __init__(self, model, dtype, divide):
        self.model, self.dtype, self.divide = model, dtype, divide
        self.optimizer = optimizer_of(model)

    def gradients(self, step):
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for micro_batch in range(MICRO_BATCHES):
            for of_rank in range(size):
                copy = network().to(self.dtype)
                copy.load_state_dict(self.model.state_dict())
                loss_of(copy, batch(step, micro_batch, of_rank).to(self.dtype)).backward()
                for mine, of_part in zip(self.model.parameters(), copy.parameters()):
                    mine.grad += of_part.grad.float() / self.divide
        return [parameter.grad for parameter in self.model.parameters()]


def worst(found, expected):
    """The largest difference, as a share of the largest value of its tensor."""
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item() for a, b in zip(found, expected))


def train(title, most, dtype=torch.float32, reduce_dtype=None, mesh=None, reshard=True, divide=None, prepare=None):
    model = network()
    policy = MixedPrecisionPolicy(param_dtype=None if dtype == torch.float32 else dtype, reduce_dtype=reduce_dtype)
    for i, block in enumerate(model[1:-1]):  # every other one stays whole between forward and backward
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard and i % 2 == 0)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    if divide is not None:
        for module in model.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                module.set_gradient_divide_factor(divide)
    if prepare is not None:
        prepare(model)
    optimizer = optimizer_of(model)
    alone = Alone(network(), dtype, divide or size)
    difference = 0.0
    for step in range(STEPS):
        # A step that keeps gradients whole until the last part of its batch, then one that shards every part's.
        for micro_batch in range(MICRO_BATCHES):
            last = micro_batch == MICRO_BATCHES - 1
            model.set_requires_gradient_sync(last or step % 2 == 1)
            model.set_reshard_after_backward(last or step % 2 == 1)
            loss_of(model, batch(step, micro_batch, rank).to(dtype)).backward()
        expected = alone.gradients(step)
        difference = max(difference, worst([p.grad.full_tensor() for p in model.parameters()], expected))
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        norm_alone = torch.nn.utils.clip_grad_norm_(alone.model.parameters(), 1.0)
        difference = max(difference, worst([norm], [norm_alone]))
        for trained in (optimizer, alone.optimizer):
            trained.step()
            trained.zero_grad()
        whole = [parameter.full_tensor().detach() for parameter in model.parameters()]
        difference = max(difference, worst(whole, [p.detach() for p in alone.model.parameters()]))
    assert difference <= most, f"{title}: differs by {difference:.1e} from training alone, more than {most:.0e}"
    if rank == 0:
        print(f"FSDP2 on {size} ranks ({kind}), {title}: at most {difference:.1e} from training alone")
    return model


def gathered_and_spread_again(model):
    """The state as whole tensors on rank 0, and back into another model."""
    whole = states.get_model_state_dict(model, options=states.StateDictOptions(full_state_dict=True, cpu_offload=True))
    parameters = {name: parameter.full_tensor() for name, parameter in model.named_parameters()}
    if rank == 0:
        assert whole.keys() == parameters.keys(), whole.keys()
        for name, parameter in parameters.items():
            assert torch.equal(whole[name], parameter.cpu()), name
    else:
        assert not whole, whole.keys()
    other = network(seed=2)
    for block in other[1:-1]:
        fully_shard(block)
    fully_shard(other)
    states.set_model_state_dict(
        other, whole, options=states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    for name, parameter in other.named_parameters():
        assert torch.equal(parameter.full_tensor(), parameters[name]), name


def asynchronous(model):
    """All-gathers that are awaited when their parameters are used, two layers ahead."""
    model._set_unshard_async_op(True)
    blocks = list(model[1:-1])
    for before, after in zip(blocks, blocks[1:]):
        before.set_modules_to_forward_prefetch([after])
        after.set_modules_to_backward_prefetch([before])


trained = train("float32", 1e-4)
gathered_and_spread_again(trained)
train("whole between forward and backward", 1e-4, reshard=False)
train("asynchronous all-gathers", 1e-4, prepare=asynchronous)
train("a divisor of its own", 1e-4, divide=3.0 * size)
train("bfloat16, reduced in float32", 2e-2, dtype=torch.bfloat16, reduce_dtype=torch.float32)
train("bfloat16, reduced in it", 4e-2, dtype=torch.bfloat16)
if size % 2 == 0 and size > 2:
    mesh = init_device_mesh(kind, (2, size // 2), mesh_dim_names=("replicas", "shards"))
    train("replicas of shards", 1e-4, mesh=mesh)
dist.barrier()
dist.destroy_process_group()
