"""What each rank has in a test, and what is to come of it."""

import torch


def of_rank(rank, shape=(3, 5), dtype=torch.float32):
    values = torch.arange(torch.Size(shape).numel()).reshape(shape) % 3 + rank + 1
    return values.to(dtype)


def of_all(size, **named):
    return torch.stack([of_rank(rank, **named) for rank in range(size)])


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def is_mapped(tensor):
    """Does it lie in memory that the ranks of the host share?"""
    address = tensor.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return "memfd:" in line
    return False
