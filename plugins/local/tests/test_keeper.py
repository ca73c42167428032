"""The parts of a keeper by themselves."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from commands_support import serial, survivors

from stead_local.keeper import tree
from stead_local.keeper.channel import FINAL, KILL, REQUEST, Channel
from stead_local.keeper.parent import FORK, READY
from stead_local.keeper.request import pack, unpack, unpack_request
from stead_local.variables import host_variables

MAIN = Path(tree.__file__).with_name("__main__.py")


def pair() -> tuple[Channel, Channel]:
    """Two ends of a connection."""
    ours, theirs = socket.socketpair()
    return Channel(ours), Channel(theirs)


def test_frames_arrive_whole_and_in_order():
    """Frames of any size arrive as they were posted, however the socket cuts them."""
    sender, receiver = pair()
    frames = [(KILL, b""), (REQUEST, b"x" * 3_000_000), (FINAL, b"\0" * 17)]
    for kind, payload in frames:
        sender.post(kind, payload)
    assert sender.pending > 0
    while len(receiver.inbox) < 3:
        receiver.receive()
        sender.flush()
    assert (receiver.inbox, sender.pending, receiver.at_end) == (frames, 0, False)
    sender.close()
    receiver.receive()
    assert receiver.at_end
    receiver.close()


def test_a_channel_whose_other_end_is_gone():
    """Posting to a dead peer raises nothing and keeps nothing."""
    sender, receiver = pair()
    receiver.close()
    sender.post(FINAL, b"x" * 1_000_000)
    assert sender.pending == 0
    sender.close()


def test_descriptors_travel_and_are_not_inherited():
    """Descriptors arrive with their frame, closed for programs that are started; those nobody takes are closed."""
    sender, receiver = pair()
    reading, writing = os.pipe()
    sender.send_with_fds(REQUEST, b"", [writing, writing])
    os.close(writing)
    receiver.receive()
    first, second = receiver.take_fds()
    assert not os.get_inheritable(first)
    os.close(second)
    sender.send_with_fds(REQUEST, b"", [first])
    os.close(first)
    receiver.receive()
    receiver.close()
    assert os.read(reading, 1) == b""
    os.close(reading)
    sender.close()


def test_a_request_that_does_not_fit_comes_in_a_file():
    """A long request travels in a file in memory, whose descriptor is closed."""
    request = {"argv": [b"x" * 100_000]}
    fd = os.memfd_create("request")
    os.write(fd, pack(request))
    fds = [fd]
    assert (unpack_request(b"", fds), fds) == (request, [])
    assert unpack(pack({"a": [1, b"\xff", None, 2.5, "é"]})) == {"a": [1, b"\xff", None, 2.5, "é"]}
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_process_tables_agree():
    """What /proc and `ps` say about this process is the same."""
    mine = [
        next((p.pid, p.parent, p.group) for p in table if p.pid == os.getpid())
        for table in (tree.process_table(), tree._process_table_of_ps())
    ]
    assert mine[0] == mine[1] == (os.getpid(), os.getppid(), os.getpgrp())


def test_a_pid_that_was_reused_gets_no_signal():
    """A signal is sent only to the process that was meant, not to one that has its number now."""
    with subprocess.Popen(["sleep", "50"]) as process:
        found = tree._process(process.pid)
        stranger = tree.Process(found.pid, found.parent, found.group, started=b"1")
        tree._signal(stranger, signal.SIGKILL)
        time.sleep(0.05)
        assert process.poll() is None
        tree._signal(found, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def test_without_pidfd_a_reused_pid_is_told_apart_too(monkeypatch):
    """Where there is no pidfd, the start time is looked at before the signal."""
    monkeypatch.delattr(os, "pidfd_open")
    test_a_pid_that_was_reused_gets_no_signal()


def test_the_group_tree_leaves_strangers_alone():
    """The tree of a command in a shared process is its group and its descendants, no other child."""
    mark = serial()
    script = f"setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}"
    with subprocess.Popen(["sleep", "50"]) as other:
        command = subprocess.Popen(["sh", "-c", script], start_new_session=True)
        group = tree.GroupTree()
        group.begin(command.pid)
        time.sleep(0.2)
        group.terminate()
        assert tree.kill_all(group, 5)
        command.returncode = group.status
        assert (survivors(mark), other.poll(), os.WTERMSIG(group.status)) == ([], None, signal.SIGTERM)
        other.kill()


def test_the_group_tree_without_proc(monkeypatch):
    """Where there is no /proc, `ps` tells what descends from a command."""
    monkeypatch.setattr(os.path, "isdir", lambda path: not str(path).startswith("/proc"))
    test_the_group_tree_leaves_strangers_alone()


def start_parent() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a first keeper as an environment does."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-S", str(MAIN), str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    theirs.close()
    return process, ours


def test_a_parent_keeper_serves_and_ends_with_its_connection():
    """The script says that it is ready, forks a keeper on request, and ends when its connection does."""
    process, control = start_parent()
    assert control.recv(10) == READY
    ours, theirs = pair()
    cwd = os.open("/", os.O_RDONLY)
    request = {
        "argv": [b"/bin/sh", b"-c", b"echo $A; pwd; exit 3"],
        "env": {b"A": b"1"},
        "timeout": 5.0,
        "output_limit": 100,
        "live": False,
        "spill_root": "/",
        "spill_folders": [],
        "spill_name": "x",
        "spill_json": "/x",
        "spill_limit": 0,
        "limits": {},
        "has_stdin": False,
    }
    ours.send_with_fds(REQUEST, pack(request), [cwd])
    socket.send_fds(control, [FORK], [theirs.fileno()])
    theirs.close()
    while not ours.inbox:
        ours.receive()
    kind, payload = ours.inbox.pop()
    final = unpack(payload)
    assert (kind, final["exit_code"], final["stdout"]["head"], final["idle"]) == (FINAL, 3, b"1\n/\n", True)
    control.close()
    ours.close()
    os.close(cwd)
    assert (process.wait(10), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_parent_keeper_lives_through_the_signals_of_a_terminal():
    """INT, TERM and HUP are for the host; its keepers end when it does."""
    process, control = start_parent()
    assert control.recv(10) == READY
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    time.sleep(0.1)
    assert process.poll() is None
    control.close()
    assert process.wait(10) == 0
    process.stderr.close()


def test_what_a_keeper_imports():
    """A keeper loads nothing that is slow to load: it starts in the time of a command or two."""
    script = f"""
import sys
package = type(sys)("stead_local")
package.__path__ = [{str(MAIN.parent.parent)!r}]
sys.modules["stead_local"] = package
import stead_local.keeper.parent
print(*sorted(sys.modules))
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    slow = {"asyncio", "collections", "contextlib", "enum", "functools", "json", "re", "subprocess", "typing", "stead"}
    assert loaded & slow == set()


def test_host_variables_name_by_name():
    """The allow-list hands on what it names; `inherit` hands on everything."""
    host = {b"PATH": b"/bin", b"LC_TIME": b"C", b"API_KEY": b"s", b"no_proxy": b"localhost,.corp", b"PATHS": b"x"}
    assert host_variables(host) == {b"PATH": b"/bin", b"LC_TIME": b"C", b"no_proxy": b"localhost,.corp"}
    assert host_variables(host, inherit=True) == host


def test_threads_of_this_process_are_not_children():
    """`children` lists processes, newest last."""
    threading.Thread(target=time.sleep, args=(0.2,)).start()
    with subprocess.Popen(["sleep", "50"]) as first, subprocess.Popen(["sleep", "50"]) as second:
        found = tree.children()
        assert found.index(first.pid) < found.index(second.pid)
        first.kill()
        second.kill()
