"""Keeping output that an answer has no room for, as the environments that spill by themselves do it."""

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime

from stead.environment import Environment
from stead.errors import FileExists
from stead.tools.toolkit import Toolkit

__all__ = ["keep_output"]


async def keep_output(kit: Toolkit, stream: str, text: str) -> str:
    """Writes a stream of a command to a file among stead's own, with the record by which it is listed and expired.

    Args:
        kit: Whose environment.
        stream: `stdout` or `stderr`.
        text: All of it, as it was decoded.

    Returns:
        The file's path.

    Raises:
        SteadError: It could not be written.
    """
    env, name = kit.env, uuid.uuid4().hex[:16]
    await _ignore_state(env, kit.state_path(".gitignore"))
    info = await env.write_file(kit.state_path("spill", f"{name}.{stream[3:]}"), text.encode("utf-8", "replace"))
    record = {
        "kind": "spill",
        "id": name,
        "stream": stream,
        "path": info.path,
        "size": info.size,
        "complete": True,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    await env.write_file(info.path + ".json", json.dumps(record) + "\n")
    return info.path


async def _ignore_state(env: Environment, path: str) -> None:
    # Version control must not take up what agents leave behind. A file that is there is the user's.
    if env.capabilities.create_only:
        with suppress(FileExists):
            await env.write_file(path, "*\n", if_absent=True)
        return
    try:
        await env.read_file(path)
    except FileNotFoundError:
        await env.write_file(path, "*\n")
