"""The shell scripts alone: in each shell of this machine, with awkward names, words and files, and in a noisy place."""

import asyncio
import os
import shutil
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from leftovers import lives, nobody_left_in
from local_machine import LocalPosix, busybox
from providers import SCALE

from stead.errors import EnvironmentLost, FileMissing, SteadError, Unavailable
from stead.posix.answers import Facts
from stead.posix.scripts import script
from stead.posix.words import quoted
from stead.reading import read_lines_of_stream
from stead.results import LineRange, OutputChunk

SHELLS = {
    "sh": ("/bin/sh", None),
    "dash": ("/bin/dash", None),
    "bash": ("/bin/bash", None),
    "busybox": ("/bin/busybox sh", busybox),
}


@pytest.fixture(params=[name for name, (shell, _) in SHELLS.items() if os.path.exists(shell.split()[0])])
def shell_env(request, tmp_path):
    """An environment whose scripts run in one shell, with the programs that go with it."""
    shell, tools = SHELLS[request.param]
    path = tools(tmp_path / "tools") if tools else "/usr/bin:/bin"
    return LocalPosix(tmp_path, shell=shell, path=path)


def test_each_shell_does_everything(shell_env):
    """Files, listings, lines, commands, timeouts and trees work in every shell, also in one that is all a machine has."""

    async def use() -> None:
        async with shell_env as env:
            info = await env.write_file("d/a b\n'q'", "1\n2\n3\n")
            assert await env.read_file("d/a b\n'q'") == b"1\n2\n3\n"
            assert (await env.stat("d/a b\n'q'")).version == info.version
            async with aclosing(env.list_files(recursive=True)) as entries:
                assert [entry.path.removeprefix(f"{env.working_dir}/") async for entry in entries] == [
                    "d",
                    "d/a b\n'q'",
                ]
            assert (await env.read_lines("d/a b\n'q'", LineRange(start=2, end=2))).lines == "2"
            result = await env.execute("cat; echo err >&2; exit 3", stdin="in", env={"A.B": "x"})
            assert (result.stdout, result.stderr, result.exit_code) == ("in", "err\n", 3)
            slow = await env.execute("echo a; (trap '' TERM; sleep 30) & sleep 30", timeout=0.5)
            assert (slow.stdout, slow.timed_out, slow.exit_code) == ("a\n", True, 124)
            large = await env.execute("seq 1 20000", output_limit=100)
            assert large.stdout_bytes == 108_894
            assert await env.read_file(large.stdout_path) == b"".join(b"%d\n" % n for n in range(1, 20_001))
            async with aclosing(env.execute_stream("echo 1; echo 2 >&2")) as items:
                found = [item async for item in items]
            assert {(i.stream, i.data) for i in found if isinstance(i, OutputChunk)} == {
                ("stdout", b"1\n"),
                ("stderr", b"2\n"),
            }
            await env.delete_file("d/a b\n'q'")
            with pytest.raises(FileMissing):
                await env.read_file("d/a b\n'q'")

    asyncio.run(use())


def test_odd_files_and_failing_producers(tmp_path):
    """A time that no date can hold breaks no listing; a producer is closed when its write is refused."""
    assert Facts.of("3|1:2|1|1000000000000|81a4|644|0:0").modified is None
    closed = []

    async def producer():
        try:
            yield b"a"
            yield "no bytes"
        finally:
            closed.append(True)

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            pieces = producer()
            with pytest.raises(TypeError):
                await env.write_file("f", pieces)
            assert closed == [True]

    asyncio.run(use())


def test_signals_of_a_command_are_the_systems(shell_env):
    """Nothing is ignored in a command that its user did not ask for: interrupts end it, and broken pipes do."""

    async def use() -> None:
        async with shell_env as env:
            for name, code in (("INT", 130), ("PIPE", 141), ("HUP", 129)):
                assert (await env.execute(["sh", "-c", f"kill -{name} $$; sleep 5"])).exit_code == code

    asyncio.run(use())


def test_variables_of_a_command_are_its_own(tmp_path):
    """A command sees the machine's variables as they were, and none of the scripts' own."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            names = ("name", "size", "kind", "rest", "place", "pids", "code", "job", "part", "gone")
            env.machine.variables |= {name: f"my {name}" for name in names}
            shown = (await env.execute("env")).stdout.splitlines()
            assert {f"{name}=my {name}" for name in names} <= set(shown)
            assert not [line for line in shown if "STEAD" in line.upper().partition("=")[0]]

    asyncio.run(use())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=6)
)
def test_quoted_words_come_back(words):
    """Whatever words hold, a shell reads exactly them again."""

    async def read() -> bytes:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", 'eval "set -- $W"; printf "%s\\0" "$@"', env={"W": quoted(words)}, stdout=-1
        )
        return (await process.communicate())[0]

    expected = b"".join(word.encode() + b"\0" for word in words) or b"\0"
    assert asyncio.run(read()) == expected


def test_noise_around_an_answer_is_no_part_of_it(tmp_path):
    """A banner, an echo or a locale's message before every answer changes nothing: files, lines and errors are exact."""

    async def use() -> None:
        async with LocalPosix(tmp_path, noise="Welcome!\r\nbash: warning: setlocale @0a ok\r\n") as env:
            await env.write_file("f", b"\x00\xff\r\n" * 1000)
            assert await env.read_file("f") == b"\x00\xff\r\n" * 1000
            assert (await env.read_lines("f", LineRange(end=1))).total_lines == 1000
            with pytest.raises(FileMissing):
                await env.read_file("missing")
            assert (await env.execute("echo hi")).stdout == "hi\n"

    asyncio.run(use())


def test_no_answer_is_an_error(tmp_path, monkeypatch):
    """A machine whose answers are swallowed, or broken in the middle, is Unavailable: never an empty file or a success."""
    monkeypatch.setattr("stead.posix.calls.pause_before", lambda attempt, error: 0.01)

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            await env.write_file("f", "content")
            run = env.machine.run
            for broken in (
                lambda text: "",
                lambda text: text[: len(text) // 2],
                lambda text: text.replace(" b", " b!", 1),
                lambda text: text.replace("@", "#"),
            ):

                async def answer(variables, *, seconds, broken=broken):
                    return broken(await run(variables, seconds=seconds))

                env.machine.run = answer
                for call in (env.read_file("f"), env.stat("f"), env.execute("true")):
                    with pytest.raises(Unavailable):
                        await call
                env.machine.run = run
            assert await env.read_file("f") == b"content"

    asyncio.run(use())


def test_commands_stay_short(tmp_path):
    """No command that the machine is asked to run is longer than 8 KiB, whatever is written or run: content has its own way."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            payload = os.urandom(300_000)
            await env.write_file("p.bin", payload)
            assert await env.read_file("p.bin") == payload
            assert (await env.execute(f": {'x' * 200_000}; echo ok")).stdout == "ok\n"
            assert max(map(len, env.machine.commands)) < 8 << 10

    asyncio.run(use())
    # Variables are bounded too: one may be 128 KiB, and all scripts together are far less.
    assert all(
        len(script(name)) < 12 << 10 for name in ("hello", "read", "lines", "list", "commit", "start", "supervise")
    )


def test_supervisor_killed(tmp_path):
    """When what watches over a command is killed, that is told, the rest is ended, and the environment goes on."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            task = asyncio.create_task(env.execute("echo $$ > pid; sleep 60"))
            while not (env.folder / "pid").exists():
                await asyncio.sleep(0.05)
            supervisor = next((tmp_path / "tmp").glob("stead-*/job-*/supervisor")).read_text()
            os.kill(int(supervisor), 9)
            with pytest.raises(EnvironmentLost):
                await task
            await asyncio.sleep(1)
            assert not lives((env.folder / "pid").read_text())
            assert (await env.execute("echo on")).stdout == "on\n"
        await asyncio.to_thread(nobody_left_in, tmp_path)

    asyncio.run(use())


def test_supervisor_and_owner_killed(tmp_path):
    """When nobody is left who could end a command, what watches its time does, and then ends too."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            task = asyncio.create_task(env.execute("echo $$ > pid; (sleep 60) & sleep 60"))
            while not (env.folder / "pid").exists():
                await asyncio.sleep(0.05)
            run = env.machine.run
            gone = asyncio.get_running_loop().create_future()

            async def silent(variables, *, seconds):
                return await gone

            env.machine.run = silent
            supervisor = next((tmp_path / "tmp").glob("stead-*/job-*/supervisor")).read_text()
            os.kill(int(supervisor), 9)
            await asyncio.to_thread(nobody_left_in, tmp_path)
            env.machine.run = run
            gone.set_exception(EnvironmentLost("the machine is gone"))
            with pytest.raises(EnvironmentLost):
                await task

    asyncio.run(use())


def test_owner_gone(tmp_path):
    """A command that nobody asks for any more is ended on the machine, after the lease."""

    class Short(LocalPosix):
        lease = 2.0

    async def use() -> None:
        async with Short(tmp_path) as env:
            run = env.machine.run

            async def silent(variables, *, seconds):
                if env.machine.commands and variables.get("STEAD_SUPERVISE"):
                    await run(variables | {"STEAD_WAIT": "0"}, seconds=seconds)
                await asyncio.sleep(60)

            env.machine.run = silent
            task = asyncio.create_task(env.execute("echo $$ > pid; sleep 60"))
            await asyncio.sleep(5)
            env.machine.run = run
            assert not lives((env.folder / "pid").read_text())
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(nobody_left_in, tmp_path)

    asyncio.run(use())


def test_spill_beyond_its_limit(tmp_path):
    """A stream longer than a spill file may be is counted on, the command goes on, and the result says so."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            env._commands._options = type(env._commands._options)(
                state_dir=str(env.folder / ".stead"), spill_limit=4096
            )
            result = await env.execute("seq 1 20000; echo end >&2", output_limit=100)
            assert (result.stdout_bytes, result.stderr, result.exit_code) == (108_894, "end\n", 0)
            assert result.spill_error.startswith("stdout: ")
            assert len(await env.read_file(result.stdout_path)) == 4096

    asyncio.run(use())


_TEXT = st.binary(max_size=300) | st.text(max_size=200).map(str.encode) | st.just(b"")
_LINES = st.lists(_TEXT, max_size=12).map(b"\n".join)


@settings(
    max_examples=int(max(40, 400 * SCALE)), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    data=_LINES,
    start=st.integers(1, 14),
    lines=st.none() | st.integers(0, 6),
    column=st.sampled_from([1, 1, 1, 2, 5, 40]),
    chars=st.integers(1, 400),
    total=st.booleans(),
)
def test_lines_at_source_are_the_scanners(machine, data, start, lines, column, chars, total):
    """A page that the scripts find is, byte for byte, that which the scanner makes of the whole file; so are its errors."""
    folder, loop, env = machine
    window = LineRange(
        start=start,
        end=None if lines is None else start + lines,
        start_column=column,
        max_chars=chars,
        count_total=total,
    )

    async def pages() -> list[object]:
        (folder / "work" / "f").write_bytes(data)
        env._lines.clear()
        found: list[object] = []
        for page in (env.read_lines("f", window), read_lines_of_stream(LocalFile(env), "f", window)):
            try:
                found.append(await page)
            except (ValueError, SteadError) as error:
                found.append((type(error), str(error)))
        return found

    found = loop.run_until_complete(pages())
    assert found[0] == found[1]


class LocalFile:
    """The same file, read by the contract's base: no index of an earlier page."""

    def __init__(self, env):
        from dataclasses import replace

        self.capabilities = replace(env.capabilities, stat=False, range_read=False)
        self.read_file_stream = env.read_file_stream


@pytest.fixture
def machine(tmp_path):
    """One environment for all examples of a property."""
    loop = asyncio.new_event_loop()
    env = LocalPosix(tmp_path)
    loop.run_until_complete(env.start())
    yield tmp_path, loop, env
    loop.run_until_complete(env.close())
    loop.close()


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_lines_of_a_large_file(tmp_path, ending):
    """Pages anywhere in a file of many blocks are right, the first time and from what was learned of it."""
    count = 700_000  # 147 MB: the scripts count by blocks of 64 MiB
    filler = b"." * 195
    data = b"".join(b"%09d line%s\n" % (n, filler) for n in range(1, count + 1)).removesuffix(b"\n") + ending

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            (env.folder / "log").write_bytes(data)
            for _ in range(2):
                for start in (1, 2, count // 3, count - 1, count, count + 1):
                    page = await env.read_lines("log", LineRange(start=start, end=start + 1))
                    lines = [f"{n:09d} line{filler.decode()}" for n in range(start, min(start + 2, count + 1))]
                    assert (page.lines, page.total_lines) == ("\n".join(lines), count)
                    assert page.last_line_complete is (start < count - 1 or bool(ending) or start > count)

    asyncio.run(use())
    shutil.rmtree(tmp_path / "work")


def test_lines_of_a_giant_line(tmp_path):
    """One giant line is paged forward from where each page ended, also behind characters that are not ASCII."""
    text = "".join(f"{n:07d}\u754c" for n in range(60_000))

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            await env.write_file("f", text)
            column, found = 1, []
            while column is not None:
                page = await env.read_lines("f", LineRange(start_column=column, max_chars=50_000))
                found.append(page.lines)
                column = page.next_start_column if page.truncated else None
            assert "".join(found) == text
            # Anywhere else is found by streaming, since only a decoder can count there.
            assert (await env.read_lines("f", LineRange(start_column=400_001, max_chars=8))).lines == text[
                400_000:400_008
            ]

    asyncio.run(use())


def test_lines_of_a_growing_log(tmp_path):
    """A log that grows gives every terminated line once, page after page."""

    async def use() -> None:
        async with LocalPosix(tmp_path) as env:
            log, seen, line = Path(env.folder, "log"), [], 1
            for turn in range(5):
                with log.open("a") as file:
                    file.write(f"{turn} first\n{turn} half ")
                page = await env.read_lines("log", LineRange(start=line))
                lines = page.lines.split("\n")
                seen += lines if page.last_line_complete else lines[:-1]
                line = page.next_start_line
                with log.open("a") as file:
                    file.write("done\n")
            page = await env.read_lines("log", LineRange(start=line))
            seen += page.lines.split("\n")
            assert seen == [text for turn in range(5) for text in (f"{turn} first", f"{turn} half done")]

    asyncio.run(use())
