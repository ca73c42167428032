"""The tools of one environment, ready for a model."""

import difflib
from collections.abc import Callable, Mapping

from stead.adapt import FourMethods, adapt
from stead.capabilities import Capabilities
from stead.environment import Environment
from stead.tools.edit_file import edit_file_tool
from stead.tools.execute import execute_tool
from stead.tools.glob import glob_tool
from stead.tools.grep import grep_tool
from stead.tools.list_files import list_files_tool
from stead.tools.read_file import read_file_tool
from stead.tools.tool import Tool
from stead.tools.toolkit import OffloadLocator, Toolkit, ToolOptions
from stead.tools.write_file import write_file_tool

__all__ = ["toolset"]

_MAKERS: Mapping[str, Callable[[Toolkit], Tool]] = {
    "Execute": execute_tool,
    "ReadFile": read_file_tool,
    "WriteFile": write_file_tool,
    "EditFile": edit_file_tool,
    "ListFiles": list_files_tool,
    "Glob": glob_tool,
    "Grep": grep_tool,
}
_LONGEST_TIMEOUT = 600.0


def toolset(  # noqa: PLR0913  (the one place where a caller sets all that tools have in common)
    env: Environment | FourMethods,
    *,
    number_lines: bool = True,
    max_output_chars: int = 30_000,
    count_total: bool = True,
    scan_limit: int = 1 << 30,
    offloads: OffloadLocator | None = None,
    names: Mapping[str, str | None] | None = None,
    default_timeout: float | None = 120.0,
    max_timeout: float | None = None,
) -> dict[str, Tool]:
    """Makes the tools that an environment allows.

    Args:
        env: Where they work, or what `stead.adapt` takes. A tool whose capability it does not declare is not offered.
        number_lines: ReadFile puts its number and a tab before each line.
        max_output_chars: Most characters of ReadFile's `content` (line numbers included), of Execute's output (both
            streams together), and about so many of a list; at least 1. ReadFile shows one character even if there is
            only room for the line number.
        count_total: ReadFile counts all lines of the file. Otherwise it stops after the page, and `total_lines` is null
            unless known.
        scan_limit: Bytes. Of a larger file ReadFile counts lines only where the environment reads lines at the source.
        offloads: Opens offloads that are stored in another environment: a `Reducer`.
        names: What to call a tool, by its usual name; None leaves it out. Descriptions and hints use these names.
        default_timeout: Seconds for a command if the model gives none, and for ListFiles, Glob and Grep, which then answer
            with what they have found; None is no limit.
        max_timeout: The longest that a model can ask for, in seconds. None is 600, or `default_timeout` if that is longer.

    Returns:
        The tools by the name that the model sees.

    Raises:
        TypeError: `env` cannot be adapted.
        ValueError: A number is out of range; `names` has an unknown tool or one name twice; the notices of the reducer
            in `offloads` name a tool that is not among these.
    """
    longest = max_timeout if max_timeout is not None else max(_LONGEST_TIMEOUT, default_timeout or 0.0)
    options = ToolOptions(
        number_lines=number_lines,
        max_output_chars=max_output_chars,
        count_total=count_total,
        scan_limit=scan_limit,
        default_timeout=None if default_timeout is None else min(default_timeout, longest),
        max_timeout=longest,
    )
    environment = adapt(env)
    chosen = _names(environment.capabilities, names or {})
    _check_reader(offloads, chosen)
    kit = Toolkit(environment, options, chosen, offloads)
    return {kit.names[tool]: make(kit) for tool, make in _MAKERS.items() if tool in kit.names}


def _names(capabilities: Capabilities, given: Mapping[str, str | None]) -> dict[str, str]:
    for tool in given:
        if tool not in _MAKERS:
            near = difflib.get_close_matches(tool, _MAKERS, n=1)
            raise ValueError(f"there is no tool {tool!r}; {f'did you mean {near[0]!r}?' if near else list(_MAKERS)}")
    missing = set() if capabilities.execute else {"Execute"}
    missing |= set() if capabilities.list_files else {"ListFiles", "Glob", "Grep"}
    names: dict[str, str] = {}
    for tool in _MAKERS:
        name = given.get(tool, tool)
        if name is None or tool in missing:
            continue
        if not name or name in names.values():
            raise ValueError(f"the name {name!r} is empty or taken; each tool needs a name of its own")
        names[tool] = name
    return names


def _check_reader(offloads: OffloadLocator | None, names: Mapping[str, str]) -> None:
    # A notice that names a tool which the model does not have leads nowhere.
    reader = getattr(getattr(offloads, "config", None), "read_file_tool_name", None)
    own = names.get("ReadFile", "")
    if reader and reader != own:
        raise ValueError(
            f"the notices of the reducer name the tool {reader!r}, which is not among these; "
            f"give ReducerConfig(read_file_tool_name={own!r})"
        )
    add_reader = getattr(offloads, "add_reader", None)
    if own and add_reader is not None:
        add_reader(own)
