"""Behind which streams operations on arrays of GPUs begin; torch and its GPUs are stand-ins here."""

import sys
from types import SimpleNamespace

import pytest

from fabring.arrays import View
from fabring.requests import Request
from fabring.streams import stream_of
from fabring.work import Prepared


class Tensor:
    def __init__(self, device):
        self.device = device


class Stream:
    made = 0

    def __init__(self, device):
        Stream.made += 1
        self.device, self.cuda_stream, self.waited_for = device, 100 + Stream.made, []

    def wait_stream(self, other):
        self.waited_for.append(other)


@pytest.fixture
def current(monkeypatch):
    """The current stream of each GPU."""
    streams = {"gpu 0": Stream("gpu 0"), "gpu 1": Stream("gpu 1")}
    cuda = SimpleNamespace(current_stream=lambda device: streams[device], Stream=Stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, cuda=cuda))
    return streams


def on(device):
    return View(0, (1,), "float32", Tensor(device), True)


HOST = View(0, (1,), "float32", Tensor("cpu"))


def test_arrays_of_the_host_have_the_default_stream(current):
    assert stream_of([HOST, None]) == 0


def test_arrays_of_a_gpu_have_its_current_stream(current):
    assert stream_of([HOST, on("gpu 1")]) == stream_of([on("gpu 1"), on("gpu 1")]) == current["gpu 1"].cuda_stream


def test_what_was_prepared_begins_behind_the_stream_that_is_current_at_its_start(current):
    given = []
    work = SimpleNamespace(wait=lambda timeout: True)
    prepared = Prepared(SimpleNamespace(start_on=lambda stream: given.append(stream) or work),
                        Request(None, (on("gpu 0"), HOST), "result"), None)
    for call in (lambda: prepared.start().wait(), prepared.run):
        current["gpu 0"] = Stream("gpu 0")
        assert call() == "result" and given[-1] == current["gpu 0"].cuda_stream
    assert len(given) == 2


def test_arrays_of_two_gpus_begin_behind_the_current_streams_of_both(current, monkeypatch):
    made = []
    monkeypatch.setattr(sys.modules["torch"].cuda, "Stream", lambda device: made.append(Stream(device)) or made[-1])
    for first, second in (("gpu 0", "gpu 1"), ("gpu 1", "gpu 0")):
        stream = stream_of([on(first), on(second)])
        ours = made.pop()
        assert stream == ours.cuda_stream and ours.device == first, "the input's: the library asks that GPU"
        assert ours.waited_for == [current[first], current[second]]
        assert not current[first].waited_for and not current[second].waited_for, "what they are given later is not held up"
