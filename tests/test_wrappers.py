"""Environments made of others: what each adds to what it wraps."""

import asyncio
from contextlib import aclosing
from pathlib import Path, PurePosixPath

import pytest

from stead.environments import MemoryEnvironment
from stead.errors import (
    AccessDenied,
    ConfigError,
    FileExists,
    FileMissing,
    IsADirectory,
    NotADirectory,
    PathOutsideRoot,
    Unsupported,
)
from stead.lifecycle import State
from stead.results import LineRange
from stead.wrappers import Conflict, MountsEnvironment, ReadOnlyEnvironment, ScopedEnvironment, StagedEnvironment
from stead_local import LocalEnvironment


async def paths(env, folder=".", *, recursive=True) -> list[str]:
    async with aclosing(env.list_files(folder, recursive=recursive)) as entries:
        return [entry.path + ("/" if entry.kind == "directory" else "") async for entry in entries]


def test_read_only_reads_and_refuses_to_change():
    """Every read passes; a write is AccessDenied and changes nothing; what could write is not declared."""

    async def main():
        inner = MemoryEnvironment()
        await inner.write_file("a/f", "one\ntwo\n")
        async with ReadOnlyEnvironment(inner) as env:
            assert await env.read_file("a/f") == b"one\ntwo\n"
            assert (await env.read_lines("a/f", LineRange(start=2))).lines == "two"
            assert await paths(env) == ["/a/", "/a/f"]
            with pytest.raises(AccessDenied, match="read-only"):
                await env.write_file("a/f", "new")
            with pytest.raises(Unsupported):
                await env.write_file("b", "new", if_absent=True)
            for call in (lambda: env.delete_file("a/f"), lambda: env.execute("true")):
                with pytest.raises(Unsupported):
                    await call()
            assert await env.read_file("a/f") == b"one\ntwo\n"

    asyncio.run(main())


def test_a_scope_is_all_that_is_seen():
    """Two scopes of one store share nothing; neither a sibling that shares the prefix; errors name the path given."""

    async def main():
        async with MemoryEnvironment() as store:
            await store.write_file("team-ab/secret", "SECRET")
            one, two = ScopedEnvironment(store, "team-a"), ScopedEnvironment(store, "team-b/sub")
            assert await paths(one) == []
            assert (await one.stat("/")).kind == "directory"
            info = await one.write_file("f", "1")
            assert (info.path, await one.stat("f")) == ("/f", info)
            assert (await paths(one), await paths(two), await store.read_file("team-a/f")) == (["/f"], [], b"1")
            for path in ("../team-ab/secret", "/../team-ab/secret"):
                with pytest.raises(PathOutsideRoot):
                    await one.read_file(path)
            with pytest.raises(FileMissing) as caught:
                await two.read_file("x/y")
            assert (caught.value.path, "team-b" in str(caught.value)) == ("x/y", False)
            await one.close()
            await two.close()
            assert await store.read_file("team-a/f") == b"1"

    asyncio.run(main())


def test_a_scope_is_refused_where_it_could_not_hold(tmp_path):
    """Links and commands would lead out of it: the message says what to do instead."""
    with pytest.raises(ConfigError, match="option `root`"):
        ScopedEnvironment(LocalEnvironment(tmp_path), "a")


def test_mounts_make_one_namespace(tmp_path):
    """Reads, writes, listings and lines go where the path says; commands stay in the main environment."""

    async def main():
        results, deep = MemoryEnvironment(), MemoryEnvironment()
        main = LocalEnvironment(tmp_path)
        async with MountsEnvironment(main, {"results": results, "/far/deep/away": deep}) as env:
            root = str(env.working_dir)
            info = await env.write_file("results/r.txt", "stored")
            await env.write_file("/far/deep/away/d", "x")
            await env.write_file("a", "local")
            assert info.path == f"{root}/results/r.txt"
            assert (await results.read_file("r.txt"), (tmp_path / "a").read_text()) == (b"stored", "local")
            assert await env.read_file(f"{root}/results/../results/r.txt") == b"stored"
            assert await paths(env) == [f"{root}/a", f"{root}/results/", f"{root}/results/r.txt"]
            assert await paths(env, "/far", recursive=False) == ["/far/deep/"]
            assert await paths(env, "/far") == ["/far/deep/", "/far/deep/away/", "/far/deep/away/d"]
            assert (await env.stat("/far/deep")).kind == "directory"
            assert (await env.execute("cat a; ls")).stdout == "locala\n"
            with pytest.raises(PathOutsideRoot, match="mounted there"):
                await env.execute("pwd", cwd="results")
            with pytest.raises(IsADirectory):
                await env.write_file("/far/deep", "x")
            with pytest.raises(PathOutsideRoot):
                await env.read_file("/etc/passwd")
            assert not env.capabilities.symlinks
            assert env.capabilities.execute

    asyncio.run(main())


def test_one_environment_can_be_mounted_twice():
    """Each point shows its files below itself, and so do the paths that are given back."""

    async def main():
        store = MemoryEnvironment()
        async with MountsEnvironment(MemoryEnvironment(), {"/a": store, "/b": store}) as env:
            assert (await env.write_file("/b/x", "1")).path == "/b/x"
            assert (await env.stat("/a/x")).path == "/a/x"
            assert await paths(env, "/") == ["/a/", "/a/x", "/b/", "/b/x"]
            assert await paths(env, "/b") == ["/b/x"]

    asyncio.run(main())


def test_a_mount_point_is_a_directory_to_a_write():
    """At a mount point and above one, as at any directory: FileExists with `if_absent`, else IsADirectory."""

    async def main():
        async with MountsEnvironment(MemoryEnvironment(), {"/far/m": MemoryEnvironment()}) as env:
            for path in ("/far", "/far/m", "/far/m/../m"):
                with pytest.raises(FileExists):
                    await env.write_file(path, "x", if_absent=True)
                with pytest.raises(IsADirectory):
                    await env.write_file(path, "x")
                with pytest.raises(IsADirectory):
                    await env.write_file(f"{path}/", "x", if_absent=True)

    asyncio.run(main())


def test_errors_name_paths_of_the_outside():
    """Also where the message is about a parent of the path that was given."""

    async def main():
        async with MemoryEnvironment() as store:
            mounts = MountsEnvironment(MemoryEnvironment(), {"/m": store})
            for env, path in ((ScopedEnvironment(store, "team"), "/"), (mounts, "/m")):
                await env.write_file(f"{path}/z", "x")
                with pytest.raises(NotADirectory) as caught:
                    await env.read_file(f"{path}/z/k")
                assert caught.value.message == f"'{path.rstrip('/')}/z' is a file, not a directory"
                await env.close()

    asyncio.run(main())


class Asked(LocalEnvironment):
    """A machine that tells its working directory only when it was started, as sandboxes do."""

    @property
    def working_dir(self):
        return super().working_dir if self._lifecycle.state is State.OPEN else PurePosixPath("/home/user")


def test_the_working_directory_may_be_known_only_after_the_start(tmp_path):
    """Relative mount points, and paths that `pwd` printed, follow the machine."""

    async def main():
        store = MemoryEnvironment()
        async with MountsEnvironment(Asked(tmp_path / "main"), {"data": store}, owns=True) as env:
            assert (await env.write_file("data/x", "1")).path == f"{env.working_dir}/data/x"
            assert await store.read_file("x") == b"1"
            with pytest.raises(PathOutsideRoot, match="mounted there"):
                await env.execute("pwd", cwd="data")
        async with StagedEnvironment(MemoryEnvironment(), Asked(tmp_path / "machine")) as env:
            await env.write_file("a", "x")
            place = (await env.execute("pwd")).stdout.strip()
            assert (str(env.working_dir), await env.read_file(f"{place}/a")) == (place, b"x")

    asyncio.run(main())


def test_mount_points_must_not_cover_each_other():
    """One below another, one twice, or one over the working directory, is refused at construction."""
    one, two = MemoryEnvironment(), MemoryEnvironment()
    for points in ({"a": one, "a/b": two}, {"a": one, "/a": two}, {"/": one}):
        with pytest.raises(ConfigError):
            MountsEnvironment(MemoryEnvironment(), points)


def staged(tmp_path: Path, store: MemoryEnvironment, reports: list) -> StagedEnvironment:
    return StagedEnvironment(store, LocalEnvironment(tmp_path), on_sync=reports.append)


def test_a_command_works_on_what_the_store_holds(tmp_path):
    """Files are staged once, changes come back, deletions too, and big output can be read from the store."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.write_file("in/a.txt", "one\n")
            await env.write_file("gone", "x")
            result = await env.execute("cat in/a.txt; echo two >> in/a.txt; echo new > made; rm gone; pwd")
            assert result.stdout == f"one\n{env.working_dir}\n"
            assert await env.read_file(f"{env.working_dir}/in/a.txt") == b"one\ntwo\n"
            assert await store.read_file("made") == b"new\n"
            big = await env.execute("head -c 100000 /dev/zero | tr '\\0' x", output_limit=1000)
            assert await env.read_file(big.stdout_path) == b"x" * 100_000
            await store.delete_file("made")
            assert (await env.execute("ls")).stdout == "in\n"
        return [(sorted(r.staged), sorted(r.written), r.deleted, r.conflicts) for r in reports]

    assert asyncio.run(main()) == [
        (["gone", "in/a.txt"], ["in/a.txt", "made"], ("gone",), ()),
        ([], [], (), ()),
        ([], [], (), ()),
    ]


def test_a_conflict_loses_nothing(tmp_path):
    """If somebody wrote the file in the store while a command changed it, both contents are kept and it is reported."""

    async def main():
        store, reports = MemoryEnvironment(), []
        async with staged(tmp_path, store, reports) as env:
            await env.write_file("f", "base\n")
            await env.write_file("d", "base\n")
            running = asyncio.create_task(env.execute("cat f; sleep 1; echo machine > f; rm d"))
            while not (tmp_path / "f").exists() or not (tmp_path / "d").exists():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            await store.write_file("f", "other\n")
            await store.write_file("d", "other\n")
            await running
            kept = next(c.kept_as for c in reports[0].conflicts if c.path == "f")
            contents = [await store.read_file(name) for name in ("f", "d", kept)]
            assert (await env.execute("cat f d")).stdout == "other\nother\n"
            return (
                contents,
                {c.path for c in reports[0].conflicts},
                Conflict(path="d", kept_as=None) in reports[0].conflicts,
            )

    assert asyncio.run(main()) == ([b"other\n", b"other\n", b"machine\n"], {"f", "d"}, True)
