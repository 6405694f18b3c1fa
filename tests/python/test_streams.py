"""Behind which streams operations on arrays of GPUs begin; torch, another library and their GPUs are stand-ins here."""

import sys
from types import SimpleNamespace

import pytest
from on_gpu import OnGpu

import fabring
from fabring import _core
from fabring.arrays import View, view
from fabring.requests import Request
from fabring.streams import stream_of
from fabring.work import Prepared


class Tensor:
    def __init__(self, device):
        self.device = device

    def data_ptr(self):
        return 0


class Stream:
    made = 0

    def __init__(self, device):
        Stream.made += 1
        self.device, self.cuda_stream, self.waited_for = device, 100 + Stream.made, []

    def wait_stream(self, other):
        self.waited_for.append(other)


class Default(Stream):
    """The default stream of a GPU."""

    def __init__(self, number):
        self.device, self.cuda_stream, self.waited_for = f"gpu {number}", 0, []


class OnAStream(OnGpu):
    """Of a library with streams of its own: what it exports, the default stream of its GPU has waited for."""

    def __init__(self, gpu, default):
        super().__init__(gpu)
        self.default, self.stream = default, Stream(f"gpu {gpu}")

    def __dlpack__(self, **wishes):
        self.default.wait_stream(self.stream)
        return super().__dlpack__(**wishes)


@pytest.fixture
def default():
    """The default stream of each GPU."""
    return [Default(0), Default(1)]


@pytest.fixture
def current(monkeypatch, default):
    """Torch's current stream of each GPU."""
    streams = {"gpu 0": Stream("gpu 0"), "gpu 1": Stream("gpu 1")}
    cuda = SimpleNamespace(current_stream=lambda device: streams[device], Stream=Stream,
                           default_stream=lambda gpu: default[gpu])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, cuda=cuda))
    return streams


@pytest.fixture
def other(monkeypatch, default):
    """Makes an array of another library."""
    monkeypatch.setattr(_core, "takes_gpu_memory", True)
    return lambda gpu: OnAStream(gpu, default[gpu])


def prepared(*views, refused=None):
    """And the streams that its starts were given."""
    given = []
    work = SimpleNamespace(wait=lambda timeout: True)
    core = SimpleNamespace(start_on=lambda stream: given.append(stream) or work)
    return Prepared(core, Request(None, views, "result"), None, refused), given


def on(device):
    return View(0, (1,), "float32", Tensor(device), True)


HOST = View(0, (1,), "float32", Tensor("cpu"))


def test_arrays_of_the_host_have_the_default_stream(current):
    assert stream_of([HOST, None]) == 0


def test_arrays_of_a_gpu_have_its_current_stream(current):
    assert stream_of([HOST, on("gpu 1")]) == stream_of([on("gpu 1"), on("gpu 1")]) == current["gpu 1"].cuda_stream


def test_what_was_prepared_begins_behind_the_stream_that_is_current_at_its_start(current):
    made, given = prepared(on("gpu 0"), HOST, None)
    for call in (lambda: made.start().wait(), made.run):
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


def test_arrays_of_another_library_have_the_default_stream_of_their_gpu(other, default):
    here, there = other(0), other(1)
    assert stream_of([view(here, "x", False), view(there, "out", True)]) == 0, "the library asks both GPUs"
    assert here.stream in default[0].waited_for and there.stream in default[1].waited_for


@pytest.mark.parametrize("gpu", [0, 1])
def test_an_array_of_another_library_counts_beside_torchs(current, other, default, monkeypatch, gpu):
    made = []
    monkeypatch.setattr(sys.modules["torch"].cuda, "Stream", lambda device: made.append(Stream(device)) or made[-1])
    x = other(gpu)
    for views, behind in (([view(x, "x", False), on("gpu 0")], [default[gpu], current["gpu 0"]]),
                          ([on("gpu 0"), view(x, "out", True)], [current["gpu 0"], default[gpu]])):
        stream = stream_of(views)
        ours = made.pop()
        assert stream == ours.cuda_stream and ours.device == behind[0].device and ours.waited_for == behind
    assert x.stream in default[gpu].waited_for


def test_where_torch_is_on_the_default_stream_too_no_other_one_is_needed(current, other, default, monkeypatch):
    monkeypatch.delattr(sys.modules["torch"].cuda, "Stream")
    current.update({"gpu 0": default[0], "gpu 1": default[1]})
    assert stream_of([view(other(0), "x", False), on("gpu 0")]) == stream_of([on("gpu 1"), view(other(0), "out", True)]) == 0


def test_what_was_prepared_begins_behind_what_an_array_was_given_since(other, default):
    x = other(0)
    made, given = prepared(view(x, "x", False))
    for start in range(3):
        x.stream, default[0].waited_for = Stream("gpu 0"), []
        made.run()
        assert default[0].waited_for == [x.stream], start
    assert given == [0, 0, 0]


def test_what_was_prepared_with_memory_that_is_gone_is_refused_and_told(current, other, monkeypatch):
    x, t = other(0), Tensor("gpu 0")
    monkeypatch.setattr(t, "data_ptr", lambda: 512, raising=False)
    for one in (view(x, "x", False), View(0, (1,), "float32", t, True, name="x")):
        x.tensor.data = 768
        told = []
        made, given = prepared(one, refused=told.append)
        with pytest.raises(fabring.InvalidArgumentError, match="x does not have the memory .* prepare it again"):
            made.start()
        assert not given and "x does not have" in told[0]


def test_what_was_prepared_and_gives_no_memory_any_more_is_refused_and_told(other, monkeypatch):
    x = other(0)
    told = []
    made, given = prepared(view(x, "x", False), refused=told.append)

    def gone(self, **wishes):
        raise RuntimeError("it was deleted")

    monkeypatch.setattr(OnAStream, "__dlpack__", gone)
    with pytest.raises(TypeError, match="x is a OnAStream whose __dlpack__ did not give its memory away: it was deleted"):
        made.start()
    assert not given and "it was deleted" in told[0]
