"""A stream over a store that breaks, changes and misunderstands: one version in full, or an error, never anything else."""

import asyncio
import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.errors import FileChanged, FileMissing, SteadError, StreamInterrupted, Unavailable
from stead_fsspec import retry
from stead_fsspec import stream as streams
from stead_fsspec.store import Body, Checksum, Found
from stead_fsspec.stream import ObjectStream, ParallelStream

SCALE = float(os.environ.get("STEAD_SCALE", "0.1"))
VERSIONS = [b"first-" * 7, b"2nd", b"the third version is longer than the others, " * 3, b""]


class Step:
    """What happens at one request, and in its body."""

    def __init__(self, change, refuse, cut, ignores, chunk):
        self.change, self.refuse, self.cut, self.ignores, self.chunk = change, refuse, cut, ignores, chunk


STEPS = st.lists(
    st.builds(
        Step,
        change=st.sampled_from([None, None, None, 0, 1, 2, 3, "deleted"]),
        refuse=st.sampled_from([False, False, False, True]),
        cut=st.none() | st.integers(0, 40),
        ignores=st.booleans(),
        chunk=st.integers(1, 20),
    ),
    max_size=12,
)


class Scripted:
    """A store with one object, that does at each request what the script says, and at last behaves."""

    def __init__(self, steps, *, versioned, pins):
        self.steps = list(steps)
        self.versioned = versioned
        self.pins = pins
        self.now = 0
        self.count = 0
        self.open = 0

    async def fetch(self, key, start, stop, version):
        step = self.steps.pop(0) if self.steps else Step(None, False, None, False, 7)
        if step.change == "deleted":
            self.now = None
        elif step.change is not None:
            self.now = step.change
            self.count += 1
        if step.refuse:
            raise Unavailable("refused")
        wanted = self._wanted(version)
        data = VERSIONS[wanted[0]]
        if start and start >= len(data) and not step.ignores:
            return None
        begin = 0 if step.ignores else start
        end = len(data) if stop is None or step.ignores else min(stop, len(data))
        tag = f"{wanted[0]}.{wanted[1]}" if self.versioned else None
        pin = tag if self.pins else None
        found = Found(key=key, size=len(data), version=tag, pin=pin)
        self.open += 1
        return ScriptedBody(self, found, data[begin:end], begin, step, zlib.crc32(data))

    def _wanted(self, version):
        if version is not None and version.pin is not None:
            number, count = version.pin.split(".")
            return int(number), int(count)
        if self.now is None:
            raise FileMissing("gone")
        if version is not None and version.version not in (None, f"{self.now}.{self.count}"):
            raise FileChanged("another")
        return self.now, self.count


class ScriptedBody(Body):
    def __init__(self, store, found, data, start, step, sum_):
        self.store, self.found, self.data, self.start, self.step = store, found, data, start, step
        self.checksum = Checksum(sum_, lambda value, more: zlib.crc32(more, value))
        self.passed, self.closed = 0, False

    async def read(self):
        left = len(self.data) - self.passed
        if self.step.cut is not None:
            left = min(left, self.step.cut - self.passed)
            if left <= 0 and self.passed < len(self.data):
                raise StreamInterrupted("cut", retryable=True)
        chunk = self.data[self.passed : self.passed + min(left, self.step.chunk)]
        self.passed += len(chunk)
        return chunk

    async def close(self):
        if not self.closed:
            self.closed = True
            self.store.open -= 1


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)


def read(stream):
    async def main():
        parts = []
        try:
            while chunk := await stream.next():
                parts.append(chunk)
        finally:
            await stream.close()
        return b"".join(parts)

    return asyncio.run(main())


@settings(max_examples=int(3000 * SCALE), deadline=None)
@given(
    steps=STEPS,
    versioned=st.booleans(),
    pins=st.booleans(),
    start=st.integers(0, 50),
    length=st.none() | st.integers(1, 60),
)
def test_one_version_or_an_error(steps, versioned, pins, start, length):
    """Whatever happens, what is read is that part of one version, and every body is closed."""
    store = Scripted(steps, versioned=versioned, pins=pins and versioned)
    stop = None if length is None else start + length
    try:
        found = read(ObjectStream(store, "a", start, length))
    except SteadError:
        pass
    else:
        assert found in {version[start:stop] for version in VERSIONS}
    assert store.open == 0


@settings(max_examples=int(1000 * SCALE), deadline=None)
@given(steps=STEPS, pins=st.booleans(), start=st.integers(0, 20), length=st.none() | st.integers(1, 100))
def test_parallel_too(steps, pins, start, length):
    """So is what several requests fetch at once."""
    store = Scripted(steps, versioned=True, pins=pins)
    stop = None if length is None else start + length
    before, streams.RANGE = streams.RANGE, 10
    try:
        found = read(ParallelStream(store, "a", start, length, requests=3))
    except SteadError:
        pass
    else:
        assert found in {version[start:stop] for version in VERSIONS}
    finally:
        streams.RANGE = before
    assert store.open == 0


def test_new_version_is_longer():
    """If a longer version came before the first byte, all of it is read."""
    steps = [Step(1, False, 0, False, 7), Step(2, False, None, False, 7)]
    assert read(ObjectStream(Scripted(steps, versioned=True, pins=False), "a")) == VERSIONS[2]


def test_without_a_version_the_next_try_is_another_file():
    """If what has no version breaks before its first byte, the next try may be longer, and comes whole."""
    steps = [Step(None, False, 0, False, 1), Step(2, False, None, False, 1)]
    assert read(ObjectStream(Scripted(steps, versioned=False, pins=False), "a", 1)) == VERSIONS[2][1:]


def test_without_a_version_nothing_is_resumed():
    """What has no version is not resumed after its first bytes: the rest could be another's."""
    steps = [Step(None, False, 10, False, 5)]
    with pytest.raises(StreamInterrupted):
        read(ObjectStream(Scripted(steps, versioned=False, pins=False), "a"))


def test_pinned_version_outlives_its_object():
    """What the store keeps by a pin is read to its end, although the object is gone."""
    steps = [Step(None, False, 10, False, 5), Step("deleted", False, None, False, 5)]
    assert read(ObjectStream(Scripted(steps, versioned=True, pins=True), "a")) == VERSIONS[0]
    with pytest.raises(FileChanged):
        read(ObjectStream(Scripted(steps, versioned=True, pins=False), "a"))
