"""The reducer's settings: plain frozen data, checked when it is made."""

import math
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from stead.errors import ConfigError
from stead.reducer.calls import Reduced, ToolCall
from stead.reducer.messages.codec import Codec
from stead.reducer.notices import Language, Notices, notices_for
from stead.reducer.preview import PREVIEWS, Preview

__all__ = ["Handler", "OnOffloadError", "PathGenerator", "ReducerConfig", "Rewriter", "ToolConfig"]

Handler = Callable[[ToolCall, Any], Awaitable[Reduced | None]]
"""Gets the call and its result; None leaves the result alone."""
PathGenerator = Callable[[ToolCall], str | Awaitable[str]]
TokenCounter = Callable[[Any], float | Awaitable[float]]
Rewriter = Callable[[Any, list[Any]], Any]
PostProcess = Callable[[Any], Any]
Compression = Literal["none", "zstd"]
OnOffloadError = Literal["keep", "raise", "truncate"]

_CHARS_PER_TOKEN = 4
_NUMBERS = (
    "max_length_for_trunc",
    "max_tokens_for_clear",
    "clear_target_tokens",
    "clear_retention_suffix_limit",
    "clear_at_least_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """Settings of one tool. None means: as the reducer's."""

    environment: Any = None
    """Where this tool's results are stored."""
    skip_truncation: bool | None = None
    """True leaves this tool's results alone, also by its handler; False reduces them although the reducer skips."""
    trunc_handler: Handler | None = None
    skip_clear: bool | None = None
    clear_handler: Handler | None = None
    preview: Preview | None = None
    """What is shown of a long result of this tool; None is the reducer's."""

    def __post_init__(self) -> None:
        if self.preview is not None:
            _choice("preview", self.preview, PREVIEWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerConfig:
    """Settings of a reducer. For every field None means its default; 0 means 0.

    Raises:
        ConfigError: A value is negative, of the wrong type or unknown, or a template has an unknown field.
    """

    session_id: str | None = None
    """Names the folder of the offloads. With the same id a new process repeats what was done; None is a random one."""

    max_length_for_trunc: int = 50_000
    """Characters; a longer result is truncated. At least 1."""
    skip_truncation: bool = False
    """True truncates only the tools whose own config says False."""
    trunc_exclude_tools: frozenset[str] = frozenset()
    """Names of tools whose results are never truncated, whatever else is set."""
    trunc_handler: Handler | None = None
    """Replaces the built-in truncation of all tools without a handler of their own."""
    gen_trunc_offload_file_path: PathGenerator | None = None
    """Makes the path of a truncated result; `root_dir` is not used for it then."""

    max_tokens_for_clear: int = 160_000
    """Tokens of a request above which old results are cleared."""
    clear_target_tokens: int | None = None
    """Tokens down to which one pass clears; None is a quarter of `max_tokens_for_clear`. At most that."""
    clear_retention_suffix_limit: int = 1
    """Newest rounds of tool calls that are never cleared."""
    clear_at_least_tokens: int = 0
    """A pass that would free fewer tokens changes nothing."""
    skip_clear: bool = False
    """True clears only the tools whose own config says False."""
    clear_exclude_tools: frozenset[str] = frozenset()
    """Names of tools whose calls and results are never cleared."""
    clear_tool_arguments: bool = True
    """Whether the long values in a cleared call's arguments are cleared too."""
    clear_keep_errors: bool = False
    """Whether results that report an error are left."""
    clear_handler: Handler | None = None
    """Replaces the built-in clearing of all tools without a handler of their own."""
    gen_clear_offload_file_path: PathGenerator | None = None
    """Makes the path of a cleared result."""
    clear_message_rewriter: Rewriter | None = None
    """`(call_message, results) -> list | None`, sync or async: replaces one old round; None or [] removes it."""
    clear_post_process: PostProcess | None = None
    """`(outcome) -> Outcome | None`, sync or async: runs last, after a pass that changed something."""
    repair: bool = False
    """Whether results that answer no call are taken out of the history."""

    root_dir: str = ".stead/offloads"
    """Folder of all sessions' offloads, in the environment."""
    read_file_tool_name: str = "ReadFile"
    """The tool that notices tell the model to read with, and whose results are never reduced. "" names none."""
    token_counter: TokenCounter | None = None
    """Counts one message, sync or async; tool schemas are passed to it one by one too. None is the estimate."""
    message_format: str | Codec | None = None
    """A format's name or a codec; None finds it from the messages."""
    tool_config: Mapping[str, ToolConfig] = field(default_factory=dict)
    """By tool name: a `ToolConfig`, or a mapping of its fields."""

    on_offload_error: OnOffloadError = "keep"
    """If the full text cannot be stored: keep the result as it was, raise the store's error, or truncate and say that
    the rest is not available."""
    offload_timeout: float = 15.0
    """Seconds a write may take, and one more for each MB."""
    background_writes: bool = False
    """Whether `truncate` returns before the write is done. `clear` and `flush` wait for it."""
    compression: Compression = "none"
    """`"zstd"` compresses at the reducer's own paths, and where a path of your own ends in `.zst`."""
    redact: Callable[[str], str] | None = None
    """Called with each line (at most 1 MiB at a time) before it is stored or shown in a notice; for long texts in a
    thread."""
    language: Language = "en"
    templates: Mapping[str, str] = field(default_factory=dict)
    """Own texts by the name of a field of `stead.reducer.Notices`."""
    preview: Preview = "text"

    def __post_init__(self) -> None:
        self._fill_defaults()
        self._check_numbers()
        self._check_choices()
        for name in ("trunc_exclude_tools", "clear_exclude_tools"):
            self._set(name, _names(name, getattr(self, name)))
        self._set("tool_config", {name: _tool_config(name, value) for name, value in self.tool_config.items()})
        if not self.root_dir or not isinstance(self.root_dir, str):
            raise ConfigError(f"root_dir must be a path, not {self.root_dir!r}")
        self.notices()

    @classmethod
    def large_results(
        cls, *, token_limit: int = 20_000, session_id: str | None = None, read_file_tool_name: str = "ReadFile"
    ) -> "ReducerConfig":
        """The older preset: only truncation, above `token_limit` x 4 characters, showing 10 lines of 1,000 characters.

        Args:
            token_limit: Tokens of a result that pass, at four characters a token.
            session_id: As the field.
            read_file_tool_name: As the field.
        """
        return cls(
            session_id=session_id,
            max_length_for_trunc=token_limit * _CHARS_PER_TOKEN,
            skip_clear=True,
            preview="sample",
            read_file_tool_name=read_file_tool_name,
        )

    def notices(self) -> Notices:
        """The texts of this configuration.

        Raises:
            ConfigError: The language or a template is not valid.
        """
        return notices_for(self.language, self.templates)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _fill_defaults(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) is None:
                default = item.default_factory() if callable(item.default_factory) else item.default
                self._set(item.name, default)
        if self.session_id is None:
            self._set("session_id", uuid.uuid4().hex)
        if not isinstance(self.session_id, str) or not self.session_id:
            raise ConfigError(f"session_id must be a non-empty string, not {self.session_id!r}")

    def _check_numbers(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{name} must be an int, not {value!r}")
            if value < 0:
                raise ConfigError(f"{name} must not be negative, not {value}")
        if self.max_length_for_trunc < 1:
            raise ConfigError("max_length_for_trunc must be at least 1; skip_truncation=True switches truncation off")
        if not self.offload_timeout > 0 or math.isnan(self.offload_timeout):
            raise ConfigError(f"offload_timeout must be more than 0 seconds, not {self.offload_timeout!r}")
        if self.clear_target_tokens is None:
            self._set("clear_target_tokens", self.max_tokens_for_clear // 4)
        elif self.clear_target_tokens > self.max_tokens_for_clear:
            raise ConfigError(
                f"clear_target_tokens ({self.clear_target_tokens}) is above max_tokens_for_clear "
                f"({self.max_tokens_for_clear}): a pass would end before it begins"
            )

    def _check_choices(self) -> None:
        _choice("on_offload_error", self.on_offload_error, ("keep", "raise", "truncate"))
        _choice("compression", self.compression, ("none", "zstd"))
        _choice("preview", self.preview, PREVIEWS)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}")


def _names(name: str, value: Any) -> frozenset[str]:
    # A bare string would be taken for the set of its letters.
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{name} must be a list of tool names, not {value!r}")
    return frozenset(value)


def _tool_config(name: str, value: Any) -> ToolConfig:
    if value is None:
        return ToolConfig()
    if isinstance(value, ToolConfig):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"tool_config[{name!r}] must be a ToolConfig or a mapping of its fields, not {value!r}")
    try:
        return ToolConfig(**value)
    except TypeError:
        known = sorted(item.name for item in fields(ToolConfig))
        unknown = sorted(set(value) - set(known))
        raise ConfigError(f"tool_config[{name!r}] has the unknown field {unknown[0]!r}; it may have {known}") from None
