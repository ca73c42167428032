"""The reducer: makes a large tool result, or an old history, small, and keeps all of it in an environment."""

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Any, Self

from stead.adapt import FourMethods, adapt
from stead.environment import Environment, PathLike
from stead.errors import ConfigError
from stead.reducer.calls import Decision, Outcome, Report, ToolCall
from stead.reducer.clear import Clearing
from stead.reducer.config import ReducerConfig
from stead.reducer.context import Context
from stead.reducer.frames import require_zstd
from stead.reducer.handlers import handle_stream, passed_through
from stead.reducer.names import session_name
from stead.reducer.offloads import Offloads
from stead.reducer.store import SessionStore
from stead.reducer.stream import reduce_stream
from stead.reducer.truncate import Truncation
from stead.reducer.wrap import CallId, wrap_tool

__all__ = ["OnReport", "Reducer"]

OnReport = Callable[[Report], Awaitable[None] | None]
_LOG = logging.getLogger("stead.reducer")


class Reducer:
    """Reduces the results and the history of one session. Nothing is dropped before all of it was stored.

    Use it as `async with reducer:`, or let the first use start it. One reducer can serve many calls at once.

    Args:
        environment: Where full texts go; None if truncation is skipped, and cleared results then become placeholders.
        config: The settings; None is all defaults, with a random session.
        on_report: Called, sync or async, after each `truncate` or `clear` that decided something. An error in it is
            logged.
        owns_environment: True closes the environment, and those of its tools, with the reducer.

    Raises:
        ConfigError: There is no environment, and results are to be truncated; or zstandard is needed and not installed.
        TypeError: An environment is neither an `Environment` nor can be adapted.
    """

    def __init__(
        self,
        environment: Environment | FourMethods | None,
        config: ReducerConfig | None = None,
        *,
        on_report: OnReport | None = None,
        owns_environment: bool = False,
    ) -> None:
        self.config = config or ReducerConfig()
        self.session = session_name(self.config.session_id or "")
        self.environment = None if environment is None else adapt(environment)
        if self.environment is None and not self.config.skip_truncation:
            raise ConfigError("truncation needs an environment to store in; give one, or set skip_truncation=True")
        if self.config.compression == "zstd":
            require_zstd()
        self._owns_environment = owns_environment
        self.has_reader = False
        """True once a tool is known that opens offloads wherever they are stored."""
        self._on_report = on_report
        self._context = Context(
            config=self.config,
            session=self.session,
            notices=self.config.notices(),
            store=None if self.environment is None else self._new_store(self.environment),
            tool_stores={
                name: self._new_store(adapt(own.environment))
                for name, own in self.config.tool_config.items()
                if own.environment is not None
            },
            readers={self.config.read_file_tool_name} - {""},
            report=self._report_decision,
        )
        self._truncation = Truncation(self._context)
        self._clearing = Clearing(self._context, self._send)

    def _new_store(self, environment: Environment) -> SessionStore:
        return SessionStore(
            environment,
            root_dir=self.config.root_dir,
            session=self.session,
            timeout=self.config.offload_timeout,
            compress=self.config.compression == "zstd",
        )

    # ---- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the environment. Idempotent; the first use does it too.

        Raises:
            SteadError: As `Environment.start`.
        """
        if self.environment is not None:
            await self.environment.start()

    async def close(self) -> None:
        """Ends the reducer, and its environment if it owns it. Idempotent. Offloads stay.

        Raises:
            SteadError: As `Environment.close`.
        """
        await self._context.settle()
        if self._owns_environment:
            own = [] if self.environment is None else [self.environment]
            async with AsyncExitStack() as closing:  # all of them, also if one raises
                for environment in (*own, *(store.environment for store in self._context.tool_stores.values())):
                    closing.push_async_callback(environment.close)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ---- truncation ------------------------------------------------------------------------------------------------

    async def truncate(self, call: ToolCall, result: Any) -> Any:
        """Makes a tool's result small if it is longer than `max_length_for_trunc` characters.

        Args:
            call: The call that it answers.
            result: A text, a list of content blocks, or data (a dict or list), which counts as its JSON text. The
                object is never changed.

        Returns:
            The same object if it stays, else the same shape: text for text, blocks for blocks, text for data.

        Raises:
            SteadError: The full text could not be stored and `on_offload_error` is `"raise"`.
            ConfigError: A handler stores something, and there is no environment.
        """
        return await self._truncation.run(self._complete(call, "truncate"), result)

    async def truncate_stream(self, call: ToolCall, source: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
        """Makes the result of a streaming tool small, deciding as `truncate` would for the whole of it.

        What fits passes at once, but for one notice's size that is held back. Longer output is stored as it arrives
        and the stream ends with a notice. A failed source and a consumer that leaves early lose nothing. Iterate it
        under `contextlib.aclosing`.

        Args:
            call: The call that the stream answers.
            source: Texts, content blocks, or lists of blocks.

        Yields:
            Items of the source's kind.

        Raises:
            SteadError: The rest could not be stored and `on_offload_error` is `"raise"`.
            ConfigError: A handler stores something, and there is no environment.
            Exception: What the source or a handler raised, after everything that came before it.
        """
        call = self._complete(call, "truncate")
        rule = self._context.rule("truncate", call.name)
        if isinstance(rule, str):
            chunks = passed_through(source)
        elif rule.handler is not None:
            chunks = handle_stream(self._context, call, source, rule.handler)
        else:
            chunks = reduce_stream(self._context, call, source)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def clear(self, messages: Sequence[Any], tools: Iterable[Any] = ()) -> Outcome:
        """Makes a history small if its request has more than `max_tokens_for_clear` tokens.

        The oldest rounds of tool calls go first, until the request has `clear_target_tokens`. What was cleared once
        stays so, byte for byte, whether the caller keeps the outcome's messages or passes the raw history again.

        Args:
            messages: The history, in any format that `stead.reducer.messages` knows. Never changed.
            tools: The schemas of the tools that are sent along, or the tools themselves; they count.

        Returns:
            The messages to send, and what was done.

        Raises:
            ConfigError: The message format cannot be told, or a handler stores something and there is no environment.
            SteadError: Something could not be stored and `on_offload_error` is `"raise"`; nothing was changed then.
        """
        return await self._clearing.run(messages, tools)

    async def flush(self) -> None:
        """Waits until everything that a notice names is stored. `clear` does it first.

        What could not be stored in the background is put back into the history by the next `clear`.

        Raises:
            SteadError: A background write failed and `on_offload_error` is `"raise"`.
        """
        await self._context.flush()

    def calibrate(self, input_tokens: int) -> None:
        """Corrects the estimate by the usage that the provider reported for the messages that `clear` gave last.

        Args:
            input_tokens: Tokens of the request, those from the provider's cache included.
        """
        self._clearing.calibrate(input_tokens)

    def wrap(self, tool: Callable[..., Any], name: str | None = None, call_id: CallId = None) -> Any:
        """A tool whose results are reduced. The wrapper is async, with the tool's signature and annotations.

        A `stead.tools.Tool` becomes another `Tool`: its answer keeps its keys, and the texts in it get shorter.

        Args:
            tool: A function, sync (run in a thread) or async, or a generator function of either kind (the wrapper is
                then an async generator function), or a `stead.tools.Tool`.
            name: The tool's name; None is its own.
            call_id: The call's id or a function that gives it; None takes `stead.reducer.current_call_id`, and where
                that is not set an id made from name and arguments.
        """
        return wrap_tool(self, tool, name=name, call_id=call_id)

    def add_reader(self, name: str) -> None:
        """Exempts the results of a tool that reads offloads back; its own paging bounds them.

        Args:
            name: The tool's name.
        """
        self._context.readers.add(name)
        self.has_reader = True

    # ---- what was offloaded ----------------------------------------------------------------------------------------

    @property
    def offloads(self) -> Offloads:
        """The session's offloads, in the reducer's environment and those of its tools.

        Raises:
            ConfigError: There is no environment.
        """
        environments = dict.fromkeys(store.environment for store in reversed(self._context.stores()))
        if not environments:
            raise ConfigError("this reducer has no environment, so it stores nothing")
        return Offloads(*environments, root_dir=self.config.root_dir, session=self.session)

    def environment_of(self, path: PathLike) -> Environment | None:
        """The environment in which an offload of this session lies; None if the path is no offload.

        Args:
            path: As a notice names it.
        """
        text = str(path)
        stores = self._context.stores()
        found = [store for store in stores if text in store.records.by_path]
        # Of the session, but not read yet: the reducer's own environment is the likely one.
        found += [store for store in reversed(stores) if text.startswith(f"{store.folder}/")]
        return found[0].readable(text) if found else None

    # ---- reports ---------------------------------------------------------------------------------------------------

    def _complete(self, call: ToolCall, phase: Any) -> ToolCall:
        return ToolCall(call.id, call.name, call.arguments, phase, self.session)

    async def _report_decision(self, decision: Decision) -> None:
        await self._send(Report(phase=decision.phase, decisions=(decision,)))

    async def _send(self, report: Report) -> None:
        if self._on_report is None:
            return
        try:
            answer = self._on_report(report)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001 - a caller's observer must not break the agent's loop
            _LOG.exception("on_report raised; the reducer goes on")
