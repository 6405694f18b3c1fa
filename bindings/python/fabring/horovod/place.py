"""Who is where, of the node of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Of one rank."""

    rank: int
    size: int
    local_rank: int  # among the ranks of its host
    local_size: int
    cross_rank: int  # among the hosts that have a rank with this local rank
    cross_size: int
    homogeneous: bool  # every host has as many ranks


def place_of(rank: int, nodes: Sequence[int]) -> Place:
    """nodes[i]: the node of rank i."""
    hosts: dict[int, list[int]] = {}
    for other, node in enumerate(nodes):
        hosts.setdefault(node, []).append(other)
    own = hosts[nodes[rank]]
    local = own.index(rank)
    counterparts = sorted(ranks[local] for ranks in hosts.values() if len(ranks) > local)
    return Place(rank, len(nodes), local, len(own), counterparts.index(rank), len(counterparts),
                 len({len(ranks) for ranks in hosts.values()}) == 1)
