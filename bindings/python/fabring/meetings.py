"""Meetings with the other ranks. One that Ctrl-C interrupted goes on, as the others may have seen this rank come, so an init()
that says the same takes it up again: a second one of the same rank would end the first one's job everywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from fabring import _core, identity
from fabring.errors import InvalidArgumentError


class _Interrupted(NamedTuple):
    who: dict[str, str]  # which rank of which job
    how: tuple[Any, ...]  # with which settings
    meeting: _core.Meeting


_interrupted: list[_Interrupted] = []


def meet(settings: Mapping[str, Any], environment: bool, told: list[tuple[str, str]]) -> _core.Engine:
    """The engine of this rank; `told` are the settings in words. Raises what Engine raises."""
    who = identity.of_process(settings, environment)
    read = {name: value for name, value in os.environ.items() if environment and name.startswith("FABRING_")}
    how = (environment, read, dict(told))
    meeting = _take_up(who, how) or _core.Meeting(environment, told)
    try:
        return meeting.engine()
    except BaseException:
        if not meeting.spent:
            _interrupted.append(_Interrupted(who, how, meeting))
        raise


def forget() -> None:
    """Who has come as the rank of an interrupted one, and was not taken up, leaves; now, or when the others come."""
    _forget(list(_interrupted))


def leave() -> None:
    """The same for those whose others have come. One under way stays to be taken up, as nothing ends it."""
    _forget([one for one in _interrupted if not one.meeting.under_way])


def _forget(those: list[_Interrupted]) -> None:
    _interrupted[:] = [one for one in _interrupted if one not in those]  # first: leaving lets other threads run
    for one in those:
        one.meeting.forget()


def _take_up(who: dict[str, str], how: tuple[Any, ...]) -> _core.Meeting | None:
    _forget([one for one in _interrupted if one.meeting.spent])
    for one in _interrupted:
        if one.who != who:
            continue
        if one.how != how:
            raise InvalidArgumentError(
                "an init() of this process that was interrupted still meets the others, as the same rank but with other settings; "
                "call it with the same ones, or, once the others have come, fabring.shutdown() before it")
        _interrupted.remove(one)
        return one.meeting
    return None
