"""`StagedEnvironment` where both sides change: nothing is lost, and one file in the way stops no other."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import AccessDenied, Unavailable
from stead.wrappers import StagedEnvironment
from stead_local import LocalEnvironment


def staged(tmp_path: Path, store: MemoryEnvironment, reports: list) -> StagedEnvironment:
    return StagedEnvironment(store, LocalEnvironment(tmp_path), on_sync=reports.append)


async def contents(store: MemoryEnvironment) -> dict[str, str]:
    async with aclosing(store.list_files("/", recursive=True)) as entries:
        return {e.path: (await store.read_file(e.path)).decode() async for e in entries if e.kind == "file"}


async def seen(path: Path, text: str) -> None:
    async with asyncio.timeout(30):
        while not path.is_file() or path.read_text() != text:
            await asyncio.sleep(0.01)


def kept(reports: list) -> dict[str, str | None]:
    return {conflict.path: conflict.kept_as for report in reports for conflict in report.conflicts}


@pytest.mark.parametrize("known", [True, False])
def test_staging_keeps_what_a_running_command_wrote(tmp_path, known):
    """A second command brings the other's file: what the first wrote there, to an old or a new file, is kept beside it."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            if known:
                await env.write_file("f", "base")
            await env.execute("true")
            first = asyncio.create_task(env.execute("echo precious > f; while [ ! -e go ]; do sleep 0.05; done"))
            await seen(tmp_path / "f", "precious\n")
            await store.write_file("f", "other's")
            assert (await env.execute("cat f; touch go")).stdout == "other's"
            await first
            found = kept(reports)
            assert found.keys() == {"f"}
            assert await contents(store) == {"/f": "other's", f"/{found['f']}": "precious\n", "/go": ""}

    asyncio.run(main())


def test_staging_keeps_what_an_outage_held_back(tmp_path):
    """A bring-back that the store did not take is made up for, also if somebody else wrote the file first."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.write_file("f", "base")
            real = store.write_file

            async def down(*_args, **_options):
                raise Unavailable("outage")

            store.write_file = down
            with pytest.raises(Unavailable):
                await env.execute("echo precious > f")
            store.write_file = real
            await store.write_file("f", "other's")
            assert (await env.execute("cat f")).stdout == "other's"
            assert await contents(store) == {"/f": "other's", f"/{kept(reports)['f']}": "precious\n"}

    asyncio.run(main())


def test_a_deletion_on_the_machine_does_not_hide_the_others_change(tmp_path):
    """Deleted by a running command and written by somebody else: the other's content comes, and the deletion is told."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.write_file("f", "base")
            first = asyncio.create_task(env.execute("rm f; touch gone; while [ ! -e go ]; do sleep 0.05; done"))
            await seen(tmp_path / "gone", "")
            await store.write_file("f", "other's")
            assert (await env.execute("cat f; touch go")).stdout == "other's"
            await first
            assert (kept(reports), await store.read_file("f")) == ({"f": None}, b"other's")

    asyncio.run(main())


def test_sides_that_outlive_the_environment_are_equal(tmp_path):
    """A second environment over the same store and machine finds equal files equal: no conflict, nothing moved."""

    async def main():
        store, reports = MemoryEnvironment(), []
        for _ in range(2):
            env = StagedEnvironment(store, LocalEnvironment(tmp_path), on_sync=reports.append, owns=False)
            await env.write_file("in", "1")
            await env.execute("echo 2 > out")
            await env.machine.close()
            await env.close()
        found = await contents(store)
        await store.close()
        return found, [(report.staged, report.written, report.conflicts) for report in reports]

    assert asyncio.run(main()) == (
        {"/in": "1", "/out": "2\n"},
        [(("in",), ("out",), ()), ((), ("out",), ())],
    )


def test_a_file_becomes_a_folder_and_back_on_the_machine(tmp_path):
    """Each is carried to the store, with all other files, and no later command fails."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.write_file("a", "file")
            await env.write_file("z", "old")
            result = await env.execute("rm a; mkdir a; echo hi > a/b; echo new > z; echo done")
            assert (result.stdout, await contents(store)) == ("done\n", {"/a/b": "hi\n", "/z": "new\n"})
            await env.execute("rm -r a; echo plain > a")
            assert await contents(store) == {"/a": "plain\n", "/z": "new\n"}
        return [(report.conflicts, report.failures) for report in reports]

    assert asyncio.run(main()) == [((), ())] * 2


def test_a_file_becomes_a_folder_and_back_in_the_store(tmp_path):
    """Commands see what the store has, each time."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await store.write_file("a", "file")
            await env.execute("true")
            await store.delete_file("a")
            await store.write_file("a/deep/b", "x")
            assert (await env.execute("cat a/deep/b")).stdout == "x"
            await store.delete_file("a/deep/b")
            await store.write_file("a", "again")
            assert (await env.execute("cat a")).stdout == "again"
        return [(report.conflicts, report.failures) for report in reports]

    assert asyncio.run(main()) == [((), ())] * 3


def test_a_file_here_and_a_folder_there_lose_nothing(tmp_path):
    """What cannot be where the store has something else is kept beside that, and the next command sees the store's."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.execute("mkdir d; echo 1 > d/x; echo 2 > f")
            await store.delete_file("d/x")
            await store.delete_file("f")
            await store.write_file("d", "file")
            await store.write_file("f/y", "folder")
            (tmp_path / "d" / "x").write_text("machine's x")
            (tmp_path / "f").write_text("machine's f")
            await env.execute("true")
            assert (await env.execute("cat d f/y")).stdout == "filefolder"
            found = kept(reports)
            assert found.keys() == {"d/x", "f"}
            assert await contents(store) == {
                "/d": "file",
                "/f/y": "folder",
                f"/{found['d/x']}": "machine's x",
                f"/{found['f']}": "machine's f",
            }

    asyncio.run(main())


def test_a_refused_file_is_reported_and_the_result_returned(tmp_path):
    """The store refuses one name: the others come back, the result too, and it is tried again with the next command."""

    async def main():
        store, reports = MemoryEnvironment(), []
        real = store.write_file

        async def refuse(path, *args, **options):
            if "secret" in str(path):
                raise AccessDenied("not this one")
            return await real(path, *args, **options)

        store.write_file = refuse
        async with staged(tmp_path, store, reports) as env:
            assert (await env.execute("echo 1 > a-secret; echo 2 > b; echo out")).stdout == "out\n"
            store.write_file = real
            await env.execute("true")
            assert await contents(store) == {"/a-secret": "1\n", "/b": "2\n"}
        return [[(failure.path, str(failure.error)) for failure in report.failures] for report in reports]

    assert asyncio.run(main()) == [[("a-secret", "not this one")], []]


def test_spilled_output_that_the_store_refuses_is_told_in_the_result(tmp_path):
    """The result is returned without the file's path, which could not be read, and says why."""

    async def main():
        store = MemoryEnvironment()

        async def refuse(*_args, **_options):
            raise AccessDenied("full")

        store.write_file = refuse
        async with staged(tmp_path, store, []) as env:
            return await env.execute("head -c 5000 /dev/zero | tr '\\0' x", output_limit=1000)

    result = asyncio.run(main())
    assert (result.exit_code, result.stdout_path, result.spill_error) == (
        0,
        None,
        "it was not brought to the store: full",
    )


def test_a_file_deleted_right_after_it_was_staged_stays_deleted(tmp_path):
    """Deleted in the store while it was being staged: the next command does not see it, and it does not come back."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await store.write_file("f", "x")
            real = env.machine.write_file

            async def write_file(*args, **options):
                found = await real(*args, **options)
                await store.delete_file("f")
                return found

            env.machine.write_file = write_file
            await env.execute("true")
            assert (await env.execute("ls")).stdout == ""
            assert await contents(store) == {}

    asyncio.run(main())
