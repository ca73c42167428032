"""`stead doctor`: what an environment can do from here, one line each, and what to do about what it cannot."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import typer

from stead.cli.common import ConfigOption, EnvOption, JsonOption, print_json, printable
from stead.config import Located, load_config
from stead.environment import Environment
from stead.errors import (
    AccessDenied,
    BackendNotFound,
    ConfigError,
    FileChanged,
    FileExists,
    FileMissing,
    PluginError,
    SteadError,
    Unavailable,
    Unsupported,
)
from stead.registry import is_import_string, load_backend

__all__ = ["Finding", "doctor", "examine"]

State = Literal["ok", "no", "FAIL", "-"]

_CONTENT = b"stead doctor\n" * 100_000
_SKEW_SECONDS = 60.0
_CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    check: str
    state: State
    """`ok`; `no`: the environment does not offer it; `FAIL`; `-`: not tried, since something before it failed."""
    text: str


class _Wrong(Exception):
    """A check found something wrong; the message says what, and what to do."""


def doctor(env: EnvOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Try an environment: installed, options, reachable, credentials, clock, and each thing that it can do.

    It writes one file of 1.3 MB below the state folder of the environment and deletes it. Exit codes: 0 all is well, 1
    something failed.
    """
    found = asyncio.run(examine(env, config))
    if json:
        print_json([asdict(item) for item in found])
    else:
        for item in found:
            print(f"{item.state:>4}  {item.check:<12}  {printable(item.text)}")
    raise typer.Exit(any(item.state == "FAIL" for item in found))


async def examine(name: str | None, config: Path | None) -> list[Finding]:
    """Tries an environment.

    Args:
        name: As `--env`.
        config: As `--config`.

    Returns:
        What was found, in the order in which it was tried.
    """
    findings: list[Finding] = []
    environment = _made(name, config, findings)
    if environment is not None and await _started(environment, findings):
        try:
            await _tried(environment, findings)
        finally:
            await _closed(environment, findings)
    by_check = {item.check: item for item in findings}
    missing = {check: Finding(check, "-", "not tried") for check in _CHECKS}
    return list((missing | by_check).values())


def _made(name: str | None, config: Path | None, findings: list[Finding]) -> Environment | None:
    try:
        settings = load_config(config)
        found = settings.locate(name)
        findings.append(Finding("installed", "ok", f"{found}; {_distribution(found)}"))
        made = settings.create_environment(found.name)
    except (BackendNotFound, PluginError) as error:
        findings[:] = [Finding("installed", "FAIL", error.message)]
    except ConfigError as error:
        findings.append(Finding("options", "FAIL", error.message))
    except Exception as error:  # noqa: BLE001 - as in `_checked`
        findings.append(Finding("options", "FAIL", _foreign(error)))
    else:
        findings.append(Finding("options", "ok", f"{made!r}"))
        return made
    return None


def _distribution(found: Located) -> str:
    backend = found.environment.backend if found.environment else found.name
    return "a class without a plugin" if is_import_string(backend) else load_backend(backend).distribution


async def _started(environment: Environment, findings: list[Finding]) -> bool:
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            await environment.start()
    except Unavailable as error:
        findings.append(Finding("reachable", "FAIL", f"{error.message}. Check the address, the network and proxies"))
    except AccessDenied as error:
        findings.append(Finding("credentials", "FAIL", error.message))
    except ConfigError as error:
        findings.append(Finding("options", "FAIL", error.message))
    except TimeoutError:
        findings.append(Finding("reachable", "FAIL", f"it did not start within {_CALL_SECONDS:g} seconds"))
    except SteadError as error:
        findings.append(Finding("reachable", "FAIL", error.message))
    except Exception as error:  # noqa: BLE001 - as in `_checked`
        findings.append(Finding("reachable", "FAIL", _foreign(error)))
    else:
        findings.append(Finding("reachable", "ok", "it answers"))
        findings.append(Finding("credentials", "ok", "accepted, or not needed"))
        return True
    await _closed(environment, findings)
    return False


async def _closed(environment: Environment, findings: list[Finding]) -> None:
    try:
        await environment.close()
    except Exception as error:  # noqa: BLE001 - as in `_checked`
        findings.append(Finding("close", "FAIL", f"{type(error).__name__}: {error}"))


async def _tried(environment: Environment, findings: list[Finding]) -> None:
    path = f"{environment.state_dir}/doctor-{secrets.token_hex(4)}"
    written = await _checked("write", _write(environment, path))
    if written.state == "FAIL" and _declares_no_change(environment):
        written = replace(written, state="no", text="it declares nothing that changes files, and refuses a write")
    findings.append(written)
    try:
        for check, try_it in _CHECKS.items():
            if try_it is not None and (written.state == "ok" or check in _WITHOUT_A_FILE):
                findings.append(await _checked(check, try_it(environment, path)))
    finally:
        if findings[-1].check != "delete" or findings[-1].state != "ok":
            with suppress(Exception):  # an environment that is being tried may raise anything, and it was told already
                await environment.delete_file(path)


def _declares_no_change(environment: Environment) -> bool:
    can = environment.capabilities
    return not (can.execute or can.delete_file or can.create_only or can.conditional_write or can.atomic_write)


async def _checked(check: str, trying: Awaitable[str]) -> Finding:
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            return Finding(check, "ok", await trying)
    except Unsupported as error:
        return Finding(check, "no", error.message)
    except AccessDenied as error:
        return Finding(check, "FAIL", f"{error.message}. Allow it to these credentials, or do without")
    except TimeoutError:
        return Finding(check, "FAIL", f"no answer within {_CALL_SECONDS:g} seconds")
    except (_Wrong, SteadError) as error:
        return Finding(check, "FAIL", f"{error}")
    except Exception as error:  # noqa: BLE001 - an environment that is being tried may raise anything: that is a finding
        return Finding(check, "FAIL", _foreign(error))


def _foreign(error: Exception) -> str:
    return f"it raised {type(error).__name__}, which is no error of stead's: {error}"


async def _write(env: Environment, path: str) -> str:
    info = await env.write_file(path, _CONTENT)
    return f"{info.size} bytes at {info.path}"


async def _clock(env: Environment, path: str) -> str:
    modified = (await env.stat(path)).modified
    if modified is None:
        return "it tells no time"
    skew = (datetime.now(UTC) - modified).total_seconds()
    if abs(skew) > _SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        raise _Wrong(
            f"this machine's clock is {abs(skew):.0f} s {way} the other side's: set it, or signatures will fail"
        )
    return f"the clocks agree within {_SKEW_SECONDS:g} s"


async def _read(env: Environment, path: str) -> str:
    if await env.read_file(path) != _CONTENT:
        raise _Wrong("what was read is not what was written: something between here and there changes content")
    return "what was written was read"


async def _stream(env: Environment, path: str) -> str:
    chunks: AsyncGenerator[bytes, None] = env.read_file_stream(path, offset=13)
    async with aclosing(chunks) as pieces:
        found = [piece async for piece in pieces]
    if b"".join(found) != _CONTENT[13:]:
        raise _Wrong("a stream from byte 13 on is not what was written there")
    how = "as it arrives" if env.capabilities.streaming_read else "after it was read whole"
    return f"in {len(found)} chunks, {how}"


async def _list(env: Environment, path: str) -> str:
    async with aclosing(env.list_files(path.rpartition("/")[0])) as entries:
        names = [entry.path.rpartition("/")[2] async for entry in entries]
    if path.rpartition("/")[2] not in names:
        raise _Wrong("the file that was written is not listed")
    return f"{len(names)} entries"


async def _if_absent(env: Environment, path: str) -> str:
    try:
        await env.write_file(path, _CONTENT, if_absent=True)
    except FileExists:
        return "an existing file is not replaced"
    raise _Wrong("an existing file was replaced although `if_absent` forbids it; do not rely on it here")


async def _if_version(env: Environment, path: str) -> str:
    info = await env.stat(path)
    try:
        # Told apart by its end, so that it cannot be this file's version in any backend's way of writing them.
        await env.write_file(path, _CONTENT, if_version=f"{info.version}0")
    except FileChanged:
        return "another version is not replaced"
    raise _Wrong("another version was replaced although `if_version` forbids it; do not rely on it here")


async def _execute(env: Environment, _path: str) -> str:
    result = await env.execute("exit 7", timeout=20)
    if result.exit_code != 7:
        raise _Wrong(f"`exit 7` ended with {result.exit_code}: {result.stderr.strip()[:200]}")
    return f"commands run in {result.duration:.2f} s; what confines them: {env.capabilities.isolation}"


async def _delete(env: Environment, path: str) -> str:
    await env.delete_file(path)
    with suppress(FileMissing):
        await env.read_file(path)
        raise _Wrong("the file that was deleted can still be read")
    return "what was written is gone again"


_CHECKS: dict[str, Callable[[Environment, str], Awaitable[str]] | None] = {
    "installed": None,
    "options": None,
    "reachable": None,
    "credentials": None,
    "write": None,
    "clock": _clock,
    "read": _read,
    "stream": _stream,
    "list": _list,
    "if_absent": _if_absent,
    "if_version": _if_version,
    "execute": _execute,
    "delete": _delete,
}
"""What is looked at, in this order. What has no function of its own is found out on the way to the first that has."""

_WITHOUT_A_FILE = frozenset({"execute"})
"""What is also tried if no file could be written."""
