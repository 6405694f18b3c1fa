"""Process sets: collectives of some of the ranks. Every rank calls add_process_set with the same ranks, in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from fabring.errors import InvalidArgumentError
from fabring.horovod.negotiation import Negotiation


class ProcessSet:
    """Ranks that call together. Made by the user, brought to life by init(process_sets=...) or add_process_set."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks: list[int] | None = sorted(int(rank) for rank in ranks)
        self.process_set_id: int | None = None
        self._negotiation: Negotiation | None = None

    def size(self) -> int | None:
        return None if self.process_set_id is None or self.ranks is None else len(self.ranks)

    def rank(self) -> int | None:
        """This rank's number in the set; None outside."""
        return None if self._negotiation is None else self._negotiation.rank

    def included(self) -> bool | None:
        return None if self.process_set_id is None else self._negotiation is not None

    def check_set_up(self) -> None:
        if self.process_set_id is None:
            raise InvalidArgumentError(f"{self} is not set up: call init() first, and add_process_set() for a set of your own")

    def negotiation(self) -> Negotiation:
        self.check_set_up()
        if self._negotiation is None:
            raise InvalidArgumentError(f"this rank is not in {self}")
        return self._negotiation

    def place(self, rank: int) -> int:
        """The number in the set of a rank of the job."""
        if self.ranks is None or rank not in self.ranks:
            raise InvalidArgumentError(f"root_rank {rank} is not in {self}")
        return self.ranks.index(rank)

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


global_process_set = ProcessSet([])
