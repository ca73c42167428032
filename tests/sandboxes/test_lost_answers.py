"""Answers that are lost on their way while the script that gives them goes on: what is asked again is done once."""

import asyncio
import hashlib
from contextlib import aclosing

import pytest
from local_machine import LocalPosix

from stead.errors import FileChanged, FileExists, Unavailable
from stead.results import OutputChunk


class Lossy(LocalPosix):
    """Loses the answers of the first questions that have one variable; their scripts go on, as in a sandbox."""

    def __init__(self, home, variable: str, times: int, **machine) -> None:
        super().__init__(home, **machine)
        self.variable, self.left, self.times = variable, [], times
        self.answer, self.machine.run = self.machine.run, self.lose

    async def lose(self, variables, *, seconds):
        if self.variable not in variables or len(self.left) >= self.times:
            return await self.answer(variables, seconds=seconds)
        self.left.append(asyncio.create_task(self.answer(variables, seconds=seconds)))
        await asyncio.sleep(0.2)
        raise Unavailable("the connection broke")


@pytest.fixture
def slow_move(tmp_path):
    """A path on which the move of an upload takes its time, as from another file system."""
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "mv").write_text(
        '#!/bin/sh\ncase $* in *up-*" ./.stead-tmp-"*) sleep 1.5 ;; esac\nexec /bin/mv "$@"\n', newline="\n"
    )
    (folder / "mv").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize("absent", [False, True])
def test_write_that_is_still_under_way(tmp_path, slow_move, absent):
    """A write that is asked for again while its first try still runs is done once, and told as done."""

    async def use() -> None:
        async with Lossy(tmp_path, "STEAD_UPLOAD", 1, path=slow_move) as env:
            if not absent:
                (env.folder / "f").write_text("old")
            info = await env.write_file("f", "new", if_absent=absent)
            assert (info.version, await env.read_file("f")) == ((await env.stat("f")).version, b"new")
            await asyncio.wait(env.left)
            assert [path.name for path in env.folder.iterdir()] == ["f"]

    asyncio.run(use())


def test_refusal_whose_answer_is_lost(tmp_path, slow_move):
    """A write that was refused is told the same when it is asked for again, though its content is gone by then."""

    async def use() -> None:
        async with Lossy(tmp_path, "STEAD_UPLOAD", 1, path=slow_move) as env:
            (env.folder / "f").write_text("old")
            with pytest.raises(FileChanged):
                await env.write_file("f", "new", if_version="1|0:0|never")
            env.left.clear()
            with pytest.raises(FileExists):
                await env.write_file("f", "new", if_absent=True)
            assert (env.folder / "f").read_text() == "old"

    asyncio.run(use())


def test_stream_whose_answers_are_lost(tmp_path):
    """The output of a command comes whole and in order, though a stale question is still being answered meanwhile."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            run, fetch, stale = env.machine.run, env.machine.fetch, []

            async def lossy(variables, *, seconds):
                if "STEAD_PIECE" in variables and not stale:
                    stale.append(variables)
                    raise Unavailable("the connection broke")
                return await run(variables, seconds=seconds)

            async def beside(path):
                await run(stale[0], seconds=30)
                async with aclosing(fetch(path)) as chunks:
                    async for chunk in chunks:
                        yield chunk

            env.machine.run, env.machine.fetch = lossy, beside
            found = hashlib.sha256()
            async with aclosing(env.execute_stream("seq 1 200000")) as items:
                async for item in items:
                    if isinstance(item, OutputChunk):
                        found.update(item.data)
            expected = hashlib.sha256(b"".join(b"%d\n" % n for n in range(1, 200_001)))
            assert found.digest() == expected.digest()

    asyncio.run(use())


def test_slow_consumer_of_a_stream(tmp_path):
    """A caller may take longer between two pieces of output than the lease; dropping the stream leaves no task behind."""

    class Short(LocalPosix):
        lease = 1.5

    async def use() -> None:
        async with Short(tmp_path) as env:
            before = asyncio.all_tasks()
            found = []
            async with aclosing(env.execute_stream("echo 1; sleep 5; echo 2")) as items:
                async for item in items:
                    found.append(item)
                    if len(found) == 1:
                        await asyncio.sleep(4)
            assert [item.data for item in found[:-1]] == [b"1\n", b"2\n"]
            assert found[-1].exit_code == 0
            stream = env.execute_stream("echo 1; sleep 60")
            assert (await anext(stream)).data == b"1\n"
            del stream  # not closed: the loop does it
            for _ in range(100):
                if asyncio.all_tasks() == before:
                    break
                await asyncio.sleep(0.05)
            assert asyncio.all_tasks() == before

    asyncio.run(use())
