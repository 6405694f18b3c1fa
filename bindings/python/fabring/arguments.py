"""Arguments that are no arrays, checked by name on this rank: numbers, texts, and what communicators are made of."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from fabring.errors import InvalidArgumentError


def whole(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name}={value!r} is no whole number") from None


def seconds(value: float, name: str) -> float:
    try:
        number = math.nan if isinstance(value, (str, bytes, bytearray)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number > 0:
        raise InvalidArgumentError(f"{name}={value!r} is no number of seconds above 0")
    return max(number, 1e-9)


def utf8(text: str) -> str:
    """What the library can be given of a text: file names may have bytes in them that are no characters."""
    return text.encode(errors="replace").decode()


def part_of(colour: int | None, key: int, label: str) -> tuple[int, int, str]:
    """What a rank asks of a split."""
    return -1 if colour is None else _of_32_bits(colour, "colour"), _of_32_bits(key, "key"), label_of(label)


def label_of(label: str) -> str:
    if not isinstance(label, str):
        raise InvalidArgumentError(f"label={label!r} is no str")
    return utf8(label)


def plans_of(plans: str | bytes, label: str) -> tuple[bytes, str]:
    if not isinstance(plans, (str, bytes)):
        raise InvalidArgumentError(f"plans is a {type(plans).__name__}; it takes the text that `fabring plan --json` writes")
    return utf8(plans).encode() if isinstance(plans, str) else plans, label_of(label)


def number_of(subgroup: int) -> int:
    number = whole(subgroup, "number")
    if not 0 <= number < 2**31:
        raise InvalidArgumentError(f"number={number}; numbers of subgroups are 0 to {2**31 - 1}")
    return number


def members_of(ranks: Sequence[int], label: str) -> tuple[list[int], str]:
    """What a subgroup is made of; which ranks there are is the library's to say."""
    try:
        members = [_of_32_bits(rank, f"ranks[{i}]", "is no rank") for i, rank in enumerate(ranks)]
    except TypeError:
        raise InvalidArgumentError(f"ranks={ranks!r} is no list of ranks") from None
    if not members:
        raise InvalidArgumentError("ranks is empty; a subgroup has the calling rank at least")
    return members, label_of(label)


def _of_32_bits(value: Any, name: str, otherwise: str = "does not fit into 32 bits") -> int:
    number = whole(value, name)
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(f"{name}={number} {otherwise}")
    return number
