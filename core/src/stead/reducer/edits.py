"""What clearing would do to one exchange of a call and its result, before anything is stored."""

from dataclasses import dataclass
from typing import Any

from stead.reducer.arguments import cleared_arguments
from stead.reducer.blocks import texts_hash
from stead.reducer.budget import shown_name
from stead.reducer.calls import Reduced, ToolCall
from stead.reducer.context import Context, own_path
from stead.reducer.estimate import estimate_tokens
from stead.reducer.media import MediaPart, media_part
from stead.reducer.messages.blocks import block_text
from stead.reducer.messages.pairing import Exchange

__all__ = ["NOWHERE", "Edit", "Paths", "fill_in", "plan_edit"]

_SURELY_SHORTER = 8
_MEDIA_NAMED = 5
_UNKNOWN_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the parts of an exchange are; None if they are not stored."""

    result: str | None = None
    arguments: str | None = None
    media: tuple[str, ...] = ()


NOWHERE = Paths()


class Edit:
    """One exchange on its way to be cleared.

    Attributes:
        call: What handlers and path generators get.
        exchange: The call and its result.
        ordinal: Which of several exchanges of the history with this call id it is.
        texts: The result's text by block; None for an opaque one.
        media: The opaque blocks, where they are taken out too.
        answer: What a handler wants; None is the built-in way.
        own_path: Where the caller wants the result stored.
        paths: Where things are; before they are stored, paths of the same length. Empty if nothing is stored.
        result: The new result; None leaves the old one.
        arguments: The new arguments; None leaves the old ones.
    """

    __slots__ = ("answer", "arguments", "call", "exchange", "media", "ordinal", "own_path", "paths", "result", "texts")

    def __init__(self, call: ToolCall, exchange: Exchange, ordinal: int, texts: tuple[str | None, ...]) -> None:
        self.call = call
        self.exchange = exchange
        self.ordinal = ordinal
        self.texts = texts
        self.media: list[MediaPart] = []
        self.answer: Reduced | None = None
        self.own_path: str | None = None
        self.paths = NOWHERE
        self.result: str | list[Any] | None = None
        self.arguments: Any = None

    @property
    def characters(self) -> int:
        """Characters of the result's text."""
        return sum([len(text) for text in self.texts if text])

    def settle(self) -> None:
        """Lets the exchange hold what it was replaced with, so that nobody keeps the old content alive."""
        result = self.exchange.result
        if result is not None and self.result is not None:
            self.exchange.result = result._replace(content=self.result)
        if self.arguments is not None:
            self.exchange.call = self.exchange.call._replace(arguments=self.arguments)


async def plan_edit(context: Context, exchange: Exchange, ordinal: int) -> Edit | str:  # noqa: PLR0911 - one reason a line
    """The edit of an answered exchange, or the reason why it is left alone.

    Args:
        context: The reducer's settings and means.
        exchange: A call with its result.
        ordinal: As in `Edit`.
    """
    result, tool = exchange.result, exchange.call.name or "tool"
    if result is None:
        return "the call has no result"
    rule = context.rule("clear", tool)
    if isinstance(rule, str):
        return rule
    if result.is_error and context.config.clear_keep_errors:
        return "the result is an error"
    content = result.content
    texts = (content,) if isinstance(content, str) else tuple([block_text(block) for block in content])
    call = ToolCall(exchange.call.id, tool, exchange.call.arguments, "clear", context.session)
    edit = Edit(call, exchange, ordinal, texts)
    if rule.handler is None:
        if context.config.gen_clear_offload_file_path is not None:
            edit.own_path = await own_path(context.config.gen_clear_offload_file_path, call)
        return edit if _built_in(context, edit) else "no notice is shorter"
    if await _is_handled(context, edit):
        return "its handler reduced it before"
    answer = await rule.handler(call, content)
    if answer is None:
        return "its handler left it"
    if not isinstance(answer, Reduced):
        raise TypeError(f"a clear_handler must return Reduced or None, not {type(answer).__name__}")
    edit.answer, edit.own_path = answer, answer.path
    fill_in(context, edit)
    return edit


def fill_in(context: Context, edit: Edit, *, result: bool = True, arguments: bool = True) -> None:
    """Makes the new result and arguments by the edit's paths.

    Args:
        context: The reducer's settings and means.
        edit: The edit.
        result: False leaves the result.
        arguments: False leaves the arguments.
    """
    if edit.answer is not None:
        shown = edit.answer.result
        edit.result = shown.replace("{path}", edit.paths.result or "") if isinstance(shown, str) else shown
        edit.arguments = edit.answer.arguments
        return
    edit.result = _placeholder(context, edit) if result else None
    edit.arguments = _markers(context, edit) if arguments else None


async def _is_handled(context: Context, edit: Edit) -> bool:
    """True for what a handler made in an earlier pass: it is never asked about its own work."""
    store = context.store_for(edit.call.name)
    if store is None or None in edit.texts:
        return False
    record = await store.records.of_replacement(texts_hash(edit.texts))
    return record is not None and record.kind == "cleared"


def _built_in(context: Context, edit: Edit) -> bool:
    """Fills the edit in; False if nothing of the exchange would get shorter."""
    if None in edit.texts and edit.exchange.result is not None:
        blocks = zip(edit.exchange.result.content, edit.texts, strict=True)
        edit.media = [media_part(block) for block, text in blocks if text is None]
    store = context.store_for(edit.call.name)
    if store is not None:
        path = store.default_path(edit.call, _UNKNOWN_HASH, store.text_suffix)
        media = [store.default_path(edit.call, _UNKNOWN_HASH, p.suffix) for p in edit.media if p.data is not None]
        edit.paths = Paths(edit.own_path or path, path, tuple(media))
    fill_in(context, edit, arguments=context.config.clear_tool_arguments)
    if not edit.media and not _is_shorter(str(edit.result), edit):
        edit.result = None
    return edit.result is not None or edit.arguments is not None


def _placeholder(context: Context, edit: Edit) -> str:
    notices, tool, paths = context.notices, shown_name(edit.call.name), edit.paths
    if paths.result is None:
        return notices.cleared_unsaved.format(tool=tool, characters=edit.characters)
    reader = context.config.read_file_tool_name
    named = ", ".join(paths.media[:_MEDIA_NAMED]) + (", ..." if len(paths.media) > _MEDIA_NAMED else "")
    return notices.cleared.format(
        tool=tool,
        path=paths.result,
        hint=notices.short_hint.format(reader=reader) if reader else "",
        characters=edit.characters,
        media=notices.media.format(media_paths=named) if named else "",
    )


def _markers(context: Context, edit: Edit) -> Any:
    notices, tool, path = context.notices, shown_name(edit.call.name), edit.paths.arguments

    def marker(size: int) -> str:
        if path is None:
            return notices.argument_unsaved.format(tool=tool, characters=size)
        return notices.argument.format(tool=tool, path=path, characters=size)

    return cleared_arguments(edit.exchange.call, marker)


def _is_shorter(shown: str, edit: Edit) -> bool:
    characters = edit.characters
    if characters > _SURELY_SHORTER * len(shown):
        return True
    tokens = sum(estimate_tokens(text) for text in edit.texts if text)
    return len(shown) < characters and estimate_tokens(shown) < tokens
