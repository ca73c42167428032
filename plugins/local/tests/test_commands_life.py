"""Commands beside the rest of the process: loops, threads, forks, other users of subprocesses, and `close()`."""

import asyncio
import gc
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest
from commands_support import below_reaper, nothing_left, run, serial, survivors, until

from stead.errors import EnvironmentClosed, EnvironmentLost, Unavailable
from stead_local import LocalEnvironment
from stead_local.pool import KeeperPool


def children(state: str = "") -> list[str]:
    """This process's children, all or those in one state."""
    listing = subprocess.run(
        ["ps", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    rows = [line for line in listing.stdout.splitlines() if "ps -o pid" not in line]
    return [row for row in rows if row.split()[1].startswith(state)]


def test_nothing_is_started_before_the_first_command(tmp_path):
    """Making and opening an environment starts no process and no thread."""
    before = children(), threading.active_count()

    async def use(env):
        await env.start()
        return children(), threading.active_count()

    assert run(tmp_path, use)[0] == before[0]


def test_close_leaves_no_process_and_no_descriptor(tmp_path):
    """After `close()` no keeper, zombie, descriptor or thread is left."""

    async def use(env):
        await asyncio.gather(*(env.execute("sleep 0.05") for _ in range(20)))
        await env.execute("sleep 50 &")

    run(tmp_path, use)
    before = children(), set(os.listdir("/proc/self/fd")), threading.active_count()
    run(tmp_path, use)
    assert (children(), set(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_idle_keepers_are_few(tmp_path):
    """After a burst, its keepers wait a second for more commands, then all but a handful end."""

    async def use(env):
        together = "echo >> here; while [ $(wc -l < here) -lt 40 ]; do sleep 0.05; done"
        await asyncio.gather(*(env.execute(together) for _ in range(40)))
        idle = env._commands._pool._held.idle
        many = len(idle)
        parent = env._commands._pool._held.parents[0]._process.pid
        listing = ["pgrep", "-c", "-P", str(parent)]

        def few() -> bool:
            return int(subprocess.run(listing, capture_output=True, check=False).stdout) == len(idle) == 8

        return many, await until(few)

    assert run(tmp_path, use) == (40, True)


def test_keepers_are_reused(tmp_path):
    """Commands one after the other run below one keeper."""

    async def use(env):
        return {(await env.execute("echo $PPID")).stdout for _ in range(10)}

    assert len(run(tmp_path, use)) == 1


def test_a_keeper_pins_no_folder(tmp_path):
    """An idle keeper does not keep the working directory of its last command busy."""
    (tmp_path / "sub").mkdir()

    async def use(env):
        await env.execute("true", cwd="sub")
        keeper = (await env.execute("echo $PPID", cwd="sub")).stdout.strip()
        return os.readlink(f"/proc/{keeper}/cwd")

    assert run(tmp_path, use) == "/"


def test_other_users_of_subprocesses_are_left_alone(tmp_path):
    """Beside hundreds of commands, children of this process end as ever: no status lost, no zombie, no handler."""
    codes = []

    def others() -> None:
        script = ["sh", "-c", "(sleep 0.02 &); exit 7"]
        codes.extend(subprocess.run(script, check=False).returncode for _ in range(60))

    async def use(env):
        own = asyncio.create_subprocess_exec("sh", "-c", "sleep 0.3; exit 9")
        process = await own
        for _ in range(20):
            await asyncio.gather(*(env.execute("(sleep 0.01 &)") for _ in range(5)))
        return await process.wait(), children("Z")

    before = signal.getsignal(signal.SIGCHLD)
    thread = threading.Thread(target=others)
    thread.start()
    code, zombies = run(tmp_path, use)
    thread.join()
    assert (code, zombies, codes, signal.getsignal(signal.SIGCHLD)) == (9, [], [7] * 60, before)


def test_a_host_that_reaps_everything(tmp_path):
    """A library that collects any child of this process takes nothing from a command's result."""

    async def use(env):
        await env.execute("true")
        parent = env._commands._pool._held.parents[0]._process.pid
        result = await env.execute(f"kill -9 {parent}; sleep 0.1; exit 5")
        os.waitpid(parent, 0)
        return result.exit_code, (await env.execute("exit 6")).exit_code

    assert run(tmp_path, use) == (5, 6)


def test_a_host_that_ignores_its_children(tmp_path):
    """With SIGCHLD ignored, as some servers do, and every signal blocked, commands work as ever."""
    report = below_reaper(
        tmp_path,
        """
        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - {signal.SIGINT})
        async def main():
            async with LocalEnvironment(root) as env:
                results = [await env.execute("(sleep 5 &); exit 3"), await env.execute("sleep 50", timeout=0.2)]
                print([(r.exit_code, r.timed_out) for r in results])
        asyncio.run(main())
        """,
    )
    assert (report["output"], report["left"], report["errors"]) == ("[(3, False), (124, True)]", 0, "")


def test_any_thread_and_any_loop(tmp_path):
    """Commands run in a loop of another thread, on other selectors, and of several loops one after the other."""
    results = []

    def in_thread() -> None:
        async def main():
            async with LocalEnvironment(tmp_path) as env:
                results.append((await env.execute("echo hi; sleep 50", timeout=0.2)).stdout)

        for selector in (selectors.PollSelector, selectors.SelectSelector, selectors.DefaultSelector):
            loop = asyncio.SelectorEventLoop(selector())
            loop.run_until_complete(main())
            loop.close()

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join(30)
    assert results == ["hi\n"] * 3


def test_a_thread_that_ends_takes_no_command_with_it(tmp_path):
    """A keeper that was started from a thread outlives that thread."""

    async def use(env):
        await asyncio.to_thread(lambda: None)
        return (await env.execute("sleep 0.2; echo on")).stdout

    def started_elsewhere() -> None:
        outcome.append(run(tmp_path, use))

    outcome: list[str] = []
    thread = threading.Thread(target=started_elsewhere)
    thread.start()
    thread.join(30)
    assert outcome == ["on\n"]


def test_a_forked_child_does_not_hide_our_death(tmp_path):
    """A forked child (as of multiprocessing) holds no socket of ours: when we are killed, the commands still end."""
    mark = serial()
    report = below_reaper(
        tmp_path,
        f"""
        from commands_support import survivors
        async def main():
            env = LocalEnvironment(root)
            await env.execute("sleep {mark} > /dev/null 2>&1 &")
            asyncio.create_task(env.execute("sleep {mark}"))
            await asyncio.sleep(0.3)
            if os.fork() == 0:
                import time
                time.sleep(1.5)
                (root / "seen").write_text(str(len(survivors({mark}))))
                os._exit(0)
            await asyncio.sleep(0.2)
            os.kill(os.getpid(), 9)
        asyncio.run(main())
        """,
    )
    assert (report["left"], (tmp_path / "seen").read_text()) == (0, "0")


def test_a_forked_child_leaves_our_commands_alone(tmp_path):
    """A forked child that ends, cleaning up on its way, disturbs no command of its parent."""
    if multiprocessing.get_start_method() != "fork":
        pytest.skip("processes are not forked here")

    async def use(env):
        task = asyncio.create_task(env.execute("sleep 0.5; echo on"))
        await asyncio.sleep(0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which pytest may have
            pid = os.fork()
        if pid == 0:
            env.__dict__.clear()
            gc.collect()
            os._exit(0)
        os.waitpid(pid, 0)
        return (await task).stdout, (await env.execute("echo again")).stdout

    assert run(tmp_path, use) == ("on\n", "again\n")


def test_close_during_a_command(tmp_path):
    """A call that runs while the environment is closed raises EnvironmentClosed; so does every later one."""
    mark = serial()

    async def use(env):
        call = asyncio.create_task(env.execute(f"yes; sleep {mark}", output_limit=10))
        await asyncio.sleep(0.3)
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await call
        with pytest.raises(EnvironmentClosed):
            await env.execute("true")
        with pytest.raises(EnvironmentClosed):
            await anext(env.execute_stream("true"))

    run(tmp_path, use)
    assert survivors(mark) == []
    assert list((tmp_path / ".stead" / "spill").iterdir()) == []


def test_close_keeps_the_spills_of_results(tmp_path):
    """`close()` removes no file that a result names."""

    async def use(env):
        return (await env.execute("echo 12345", output_limit=1)).stdout_path

    with open(run(tmp_path, use)) as file:
        assert file.read() == "12345\n"


def test_on_close_keep(tmp_path):
    """With `on_close="keep"` a background process outlives `close()` and this process, and may go on printing."""
    script = "(i=0; while [ $i -lt 60 ]; do echo noise || exit; i=$((i+1)); sleep 0.02; done; echo done > f) & echo up"
    report = below_reaper(
        tmp_path,
        f"""
        async def main():
            env = LocalEnvironment(root, on_close="keep")
            print("up" in (await env.execute({script!r})).stdout.split())
            call = asyncio.create_task(env.execute("sleep 50"))
            await asyncio.sleep(0.1)
            await env.close()
            print(type((await asyncio.gather(call, return_exceptions=True))[0]).__name__)
        asyncio.run(main())
        """,
    )
    assert (report["output"], report["left"], report["errors"]) == ("True\nEnvironmentClosed", 0, "")
    assert (tmp_path / "f").read_text() == "done\n"


def test_an_environment_that_is_forgotten(tmp_path):
    """An environment that is dropped without `close()` ends its commands all the same, and leaves no zombie."""
    mark = serial()

    async def main():
        env = LocalEnvironment(tmp_path)
        await env.execute(f"sleep {mark} &")
        return env._commands._pool._held.parents[0]._process.pid

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        parent = asyncio.run(main())
        gc.collect()
    assert asyncio.run(until(lambda: not survivors(mark) and not os.path.exists(f"/proc/{parent}")))


def test_no_process_can_be_started(tmp_path, monkeypatch):
    """Where the system refuses a new process, the error says so, may be retried, and the environment goes on."""

    async def use(env):
        with monkeypatch.context() as patch:
            patch.setattr("socket.socketpair", refuse)
            with pytest.raises(Unavailable, match="no process for the command") as caught:
                await env.execute("true")
        return caught.value.retryable, (await env.execute("echo on")).stdout

    def refuse(*_arguments):
        raise OSError(24, "Too many open files")

    assert run(tmp_path, use) == (True, "on\n")


def test_no_file_in_memory_can_be_made(tmp_path, monkeypatch):
    """Where too many files are open to hand the input over, the command has not run, and the error says so."""

    async def use(env):
        with monkeypatch.context() as patch:
            patch.setattr("os.memfd_create", refuse, raising=False)
            patch.setattr("tempfile.mkstemp", refuse)
            with pytest.raises(Unavailable, match="Too many open files"):
                await env.execute("cat", stdin="x")
        return (await env.execute("cat", stdin="on")).stdout

    def refuse(*_arguments):
        raise OSError(24, "Too many open files")

    assert run(tmp_path, use) == "on"


def test_keepers_that_may_open_few_files(tmp_path):
    """Orders that keepers with a low limit cannot take are typed errors, and hold up none of the later ones."""
    script = """
        import asyncio, resource, sys
        from stead.errors import EnvironmentLost, Unavailable
        from stead_local import LocalEnvironment
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        async def main():
            async with LocalEnvironment(sys.argv[1]) as env:
                resource.setrlimit(resource.RLIMIT_NOFILE, (24, hard))
                await env.execute("true")
                resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
                calls = [env.execute("cat; sleep 0.1", stdin="x") for _ in range(60)]
                done = await asyncio.gather(*calls, return_exceptions=True)
                bad = [r for r in done if not isinstance(r, EnvironmentLost | Unavailable) and r.stdout != "x"]
                parent = env._commands._pool._held.parents[0]
                parent.is_alive()
                print(bad, parent.room, (await env.execute("echo on")).stdout)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[] 16 on\n\n", "")


def test_a_stopped_parent_keeper(tmp_path):
    """A command may stop the process that forks all keepers: later commands run, and `close()` leaves nothing."""
    mark = serial()

    async def use(env):
        await env.execute("kill -STOP $(ps -o ppid= -p $PPID)", timeout=5)
        results = await asyncio.gather(*(env.execute(f"sleep 0.2; echo {n}") for n in range(5)))
        parent = env._commands._pool._held.parents[0]._process.pid
        call = asyncio.create_task(env.execute(f"kill -STOP $(ps -o ppid= -p $PPID); sleep {mark}"))
        await asyncio.sleep(0.5)
        start = time.monotonic()
        await env.close()
        with pytest.raises(EnvironmentClosed):
            await call
        return [r.stdout for r in results], os.path.exists(f"/proc/{parent}"), time.monotonic() - start < 8

    assert run(tmp_path, use) == ([f"{n}\n" for n in range(5)], False, True)
    assert survivors(mark) == []


def test_a_keeper_that_fails(tmp_path, monkeypatch):
    """A fault inside a keeper is EnvironmentLost with its traceback, and the next command has another keeper."""

    async def use(env):
        with monkeypatch.context() as patch:
            request = env._commands._request

            def broken(call):
                return {**request(call), "output_limit": "many"}

            patch.setattr(env._commands, "_request", broken)
            with pytest.raises(EnvironmentLost, match="TypeError"):
                await env.execute("echo x")
        return (await env.execute("echo on")).stdout

    assert run(tmp_path, use) == "on\n"


def test_a_loop_that_never_ends_its_tasks(tmp_path):
    """An interpreter that ends while calls still wait, without cancelling them, leaves nothing and is silent."""
    mark = serial()
    report = below_reaper(
        tmp_path,
        f"""
        loop = asyncio.new_event_loop()
        env = LocalEnvironment(root)
        call = loop.create_task(env.execute("sleep {mark}"))
        loop.run_until_complete(asyncio.sleep(0.3))
        sys.unraisablehook = print
        """,
    )
    assert (report["left"], report["status"], survivors(mark)) == (0, 0, [])


# ---- without keeper processes ------------------------------------------------------------------------------------------


@pytest.fixture
def no_python(monkeypatch):
    """A host whose interpreter cannot be started again, such as a frozen application."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def test_without_a_python_commands_still_run(tmp_path, no_python):
    """In a frozen application keepers are threads: results, output, limits, spills and streams are the same."""
    (tmp_path / "sub").mkdir()

    async def use(env):
        with pytest.warns(RuntimeWarning, match="without a keeper process"):
            first = await env.execute("pwd; cat; exit 3", cwd="sub", stdin="in\n")
        spilled = await env.execute("yes | head -c 300000", output_limit=10)
        missing = await env.execute(["no-such"])
        many = await asyncio.gather(*(env.execute(f"echo {n}") for n in range(10)))
        items = [item async for item in env.execute_stream("echo live")]
        background = await env.execute("sleep 30 & echo up")
        where = os.getcwd()
        return first, spilled, missing, [r.stdout for r in many], items[0].data, background.stdout, where

    here = os.getcwd()
    first, spilled, missing, many, live, background, where = run(tmp_path, use)
    assert (first.stdout, first.exit_code) == (f"{tmp_path}/sub\nin\n", 3)
    assert (spilled.stdout_bytes, os.path.getsize(spilled.stdout_path)) == (300_000, 300_000)
    assert (missing.exit_code, missing.stderr) == (127, "no-such: not found\n")
    assert (many, live, background, where) == ([f"{n}\n" for n in range(10)], b"live\n", "up\n", here)


@pytest.mark.parametrize("end", ["timeout", "cancel", "close"])
def test_without_a_python_trees_end(tmp_path, no_python, end):
    """There, group, sessions and descendants are ended as far as parent links show them, TERM ignored or not."""
    mark = serial()
    script = f"trap '' TERM; setsid sleep {mark} & (sleep {mark}; sleep {mark}) & sleep {mark}"

    async def use(env):
        with pytest.warns(RuntimeWarning, match="without a keeper process"):
            await env.execute("true")
        call = asyncio.create_task(env.execute(script, timeout=1.5 if end == "timeout" else None))
        # The tree must stand: what is forked while it is ended may have no parent by which it could be found.
        assert await until(lambda: sum(line.startswith("sleep") for line in survivors(mark)) == 3)
        if end == "cancel":
            call.cancel()
        if end == "close":
            await env.close()
        await asyncio.wait([call])
        return await until(lambda: not survivors(mark), 2)

    before = threading.active_count()
    assert run(tmp_path, use) is True
    assert asyncio.run(until(lambda: threading.active_count() <= before + 1))


def test_a_python_that_ends_at_once(tmp_path, monkeypatch):
    """An interpreter that cannot run the keeper (missing library, sandbox) is noticed; the command runs once."""
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))

    async def use(env):
        with pytest.warns(RuntimeWarning, match="ended at once"):
            results = await asyncio.gather(*(env.execute(f"echo {n} >> ran; echo {n}") for n in range(5)))
        return [r.stdout for r in results], sorted((await env.read_file("ran")).split())

    stdout, ran = run(tmp_path, use)
    assert stdout == [f"{n}\n" for n in range(5)]
    assert ran == [b"0", b"1", b"2", b"3", b"4"]


def test_an_application_that_embeds_python_is_not_started_again(tmp_path, monkeypatch):
    """Where `sys.executable` is another program, the interpreter beside the library is used, never that program."""
    trap = tmp_path / "application"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    trap.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(trap))

    async def use(env):
        return (await env.execute("echo on")).stdout, nothing_left(env)

    assert run(tmp_path, use) == ("on\n", True)
    assert not (tmp_path / "started").exists()


def test_a_pool_knows_when_it_is_closed():
    """A pool that was closed lends nothing, also to a call that waits for its keeper at that moment."""

    async def main():
        pool = KeeperPool()
        await pool.close(keep=False)
        fd = os.open("/", os.O_RDONLY)
        try:
            with pytest.raises(EnvironmentClosed):
                await pool.ask(b"", [fd])
        finally:
            os.close(fd)
        return len(pool._held.busy)

    start = time.monotonic()
    assert asyncio.run(main()) == 0
    assert time.monotonic() - start < 10
