"""The state machine finds a wrong answer, and says which call gave it."""

import asyncio

import pytest
from broken_reading import DirectoryIsMissing
from delegate import Delegate

from stead.conformance.folder import Folder
from stead.conformance.machine import compare_with_memory
from stead.environments import MemoryEnvironment


def compare(env, examples):
    """Runs the machine."""

    async def run():
        async with env:
            await compare_with_memory(env, Folder.of("machine"), examples=examples)

    asyncio.run(run())


def test_agrees():
    """An honest environment agrees with the in-memory one."""
    compare(Delegate(MemoryEnvironment()), 30)


def test_differs(tmp_path):
    """A wrong error is found, with the call, both answers, and the calls before it."""
    with pytest.raises(AssertionError, match="gave 'FileMissing', and in memory 'IsADirectory'") as caught:
        compare(DirectoryIsMissing(tmp_path), 200)

    assert "read_file(" in "".join(caught.value.__notes__)
