#!/usr/bin/env python3
"""Data-parallel training (DDP) on scikit-learn's handwritten digits: real data, nothing to download
(pip install scikit-learn).

    torchrun --nproc-per-node 4 ddp_digits.py
    torchrun --nproc-per-node 4 ddp_digits.py --backend gloo
    fabring run -n 4 -- python ddp_digits.py

Every rank takes its part of each batch; rank 0 also trains alone on whole batches and compares, loss by loss: the curves
are the same but for rounding. Exit code 1 if they are not, or if the network has not learnt to read.
"""

import argparse
import time

import numpy
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import fabring.torch  # registers the backend "fabring", and reads what `fabring run` says


def digits():
    """Pixels scaled to 0..1 and labels, in a fixed order; the last 297 of 1797 are for testing."""
    data = load_digits()
    order = numpy.random.default_rng(0).permutation(len(data.target))
    pixels = torch.tensor(data.data[order] / 16, dtype=torch.float32)
    labels = torch.tensor(data.target[order], dtype=torch.int64)
    return pixels[:1500], labels[:1500], pixels[1500:], labels[1500:]


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                               torch.nn.Linear(256, 10))


def train(model, data, batch, epochs, rank, size, average):
    """Losses of all steps, of whole batches: each is the mean over the ranks."""
    pixels, labels = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for start in range(0, len(labels) - batch + 1, batch):
            mine = order[start:start + batch].tensor_split(size)[rank]
            loss = torch.nn.functional.cross_entropy(model(pixels[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(average(loss.detach()))
    return torch.stack(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="fabring")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=120, help="images of a step, over all ranks; a multiple of them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    if arguments.batch % size:
        raise SystemExit(f"a batch of {arguments.batch} images cannot be shared by {size} ranks equally")
    pixels, labels, test_pixels, test_labels = digits()

    def average(loss):
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        return loss

    model = DistributedDataParallel(network())
    began = time.perf_counter()
    losses = train(model, (pixels, labels), arguments.batch, arguments.epochs, rank, size, average)
    seconds = time.perf_counter() - began
    accuracy = (model(test_pixels).argmax(1) == test_labels).float().mean().item()

    verdict = torch.zeros(1)
    if rank == 0:
        alone = train(network(), (pixels, labels), arguments.batch, arguments.epochs, 0, 1, lambda loss: loss)
        difference = (losses - alone).abs().max().item()
        print(f"{arguments.backend}, {size} ranks: {arguments.epochs} epochs of {len(labels)} images in {seconds:.2f} s, "
              f"{arguments.batch * len(losses) / seconds:.0f} images/s")
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy on {len(test_labels)} other images {accuracy:.1%}")
        print(f"largest difference to a single process, of {len(losses)} losses: {difference:.1e}")
        verdict[0] = float(not (difference <= 1e-4 and accuracy >= 0.9))  # so that what is no number is wrong too
    dist.broadcast(verdict, src=0)
    dist.destroy_process_group()
    raise SystemExit(int(verdict.item()))


if __name__ == "__main__":
    main()
