#!/usr/bin/env python3
"""A small transformer whose parameters are sharded over the ranks (FSDP2), learning the text of Python's own manual.

    torchrun --nproc-per-node 4 fsdp_text.py
    torchrun --nproc-per-node 4 fsdp_text.py --backend gloo

The text comes with every Python (pydoc_data.topics), so nothing is downloaded. Rank 0 also trains the same network alone
and compares, loss by loss. Exit code 1 if the curves differ by more than rounding, or if nothing was learnt.
"""

import argparse
import math
import time

import torch
import torch.distributed as dist
from pydoc_data.topics import topics
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import fabring.torch  # registers the backend "fabring", and reads what `fabring run` says

WIDTH, HEADS, CONTEXT = 128, 4, 64


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention = torch.nn.LayerNorm(WIDTH)
        self.query_key_value = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.after_attention = torch.nn.Linear(WIDTH, WIDTH)
        self.before_hidden = torch.nn.LayerNorm(WIDTH)
        self.hidden = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                          torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.query_key_value(self.before_attention(x)).view(batch, length, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.after_attention(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.hidden(self.before_hidden(x))


class Transformer(torch.nn.Module):
    """Predicts the next byte."""

    def __init__(self, blocks):
        super().__init__()
        self.of_byte = torch.nn.Embedding(256, WIDTH)
        self.of_place = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(blocks))
        self.last = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 256))

    def forward(self, text):
        x = self.of_byte(text) + self.of_place(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def network(blocks):
    torch.manual_seed(1)
    return Transformer(blocks)


def train(model, text, batch, steps, rate, rank, size, average):
    """Losses of all steps, of whole batches."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(text) - CONTEXT - 1, (batch,), generator=generator).tensor_split(size)[rank]
        rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts]).long()
        loss = torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(average(loss.detach()))
    return torch.stack(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="fabring")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="rows of a step, over all ranks; a multiple of them")
    parser.add_argument("--rate", type=float, default=2e-3, help="of learning")
    parser.add_argument("--no-check", action="store_true", help="do not train alone and compare")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    if arguments.batch % size:
        raise SystemExit(f"a batch of {arguments.batch} rows cannot be shared by {size} ranks equally")
    text = torch.frombuffer(bytearray("\n".join(topics[name] for name in sorted(topics)).encode()), dtype=torch.uint8)

    def average(loss):
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        return loss

    model = network(arguments.blocks)
    mesh = init_device_mesh("cpu", (size,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    began = time.perf_counter()
    losses = train(model, text, arguments.batch, arguments.steps, arguments.rate, rank, size, average)
    seconds = time.perf_counter() - began

    verdict = torch.zeros(1)
    if rank == 0:
        weights = sum(parameter.numel() for parameter in model.parameters())
        print(f"{arguments.backend}, {size} ranks: {weights} weights, {arguments.steps} steps in {seconds:.2f} s, "
              f"{arguments.batch * CONTEXT * arguments.steps / seconds:.0f} bytes/s")
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} (guessing: {math.log(256):.4f})")
        verdict[0] = float(not losses[-1] <= 0.75 * losses[0])  # so that what is no number is wrong too
        if not arguments.no_check:
            alone = train(network(arguments.blocks), text, arguments.batch, arguments.steps, arguments.rate, 0, 1,
                          lambda loss: loss)
            difference = (losses - alone).abs().max().item()
            print(f"largest difference to a single process, of {len(losses)} losses: {difference:.1e}")
            verdict[0] = max(verdict[0].item(), float(not difference <= 1e-2))
    dist.broadcast(verdict, src=0)
    dist.destroy_process_group()
    raise SystemExit(int(verdict.item()))


if __name__ == "__main__":
    main()
