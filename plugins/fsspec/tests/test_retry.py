"""Repeating: bounded, with pauses that grow, and never what cannot help."""

import asyncio
import time

import pytest

from stead.errors import AccessDenied, Unavailable
from stead_fsspec import retry
from stead_fsspec.errors import Throttled
from stead_fsspec.retry import MAX_WAIT, TRIES, Retry, retrying


@pytest.fixture
def pauses(monkeypatch):
    """What was waited, without waiting."""
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(retry.asyncio, "sleep", sleep)
    return waited


def failing(error, times):
    calls = []

    async def call():
        calls.append(1)
        if len(calls) <= times:
            raise error
        return len(calls)

    return call, calls


def test_until_it_succeeds(pauses):
    """A call that fails twice is made three times, after pauses that grow and are not all the same."""
    call, _ = failing(Unavailable("x"), 2)
    assert asyncio.run(retrying(call)) == 3
    assert 0.1 <= pauses[0] <= 0.2 <= pauses[1] <= 0.4


def test_until_it_has_failed_too_often(pauses):
    """A call that always fails is made so often and no more, within four seconds of pauses."""
    call, calls = failing(Unavailable("x"), 100)
    with pytest.raises(Unavailable):
        asyncio.run(retrying(call))
    assert len(calls) == TRIES == len(pauses) + 1
    assert sum(pauses) < 4


def test_not_what_cannot_help(pauses):
    """What will fail again is not tried again."""
    call, calls = failing(AccessDenied("x"), 100)
    with pytest.raises(AccessDenied):
        asyncio.run(retrying(call))
    assert (len(calls), pauses) == (1, [])


@pytest.mark.parametrize(("asked", "waited"), [(3.0, 3.0), (3600.0, MAX_WAIT)])
def test_as_long_as_the_service_asks(pauses, asked, waited):
    """A service that says how long to wait gets it, up to a limit."""
    error = Throttled("x")
    error.retry_after = asked
    call, _ = failing(error, 1)
    asyncio.run(retrying(call))
    assert pauses == [waited]


def test_progress_begins_anew(pauses):
    """After progress the count and the pauses begin again."""
    counter = Retry()

    async def main():
        for _ in range(20):
            await counter.pause(Unavailable("x"))
            counter.progress()

    asyncio.run(main())
    assert max(pauses) <= 0.2


def test_cancelled_while_it_waits():
    """A pause can be cancelled."""

    async def main():
        begun = time.monotonic()
        error = Throttled("x")
        error.retry_after = 60.0
        task = asyncio.create_task(Retry().pause(error))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 3

    asyncio.run(main())
