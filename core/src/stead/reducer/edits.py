"""What clearing would do to one exchange of a call and its result, before anything is stored."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from stead.reducer.arguments import are_long, cleared_arguments
from stead.reducer.blocks import texts_hash
from stead.reducer.budget import shown_name
from stead.reducer.calls import Reduced, ToolCall
from stead.reducer.context import Context, own_path
from stead.reducer.estimate import estimate_tokens
from stead.reducer.media import MediaPart, media_part
from stead.reducer.messages.blocks import block_text
from stead.reducer.messages.pairing import Exchange
from stead.reducer.pointers import named_texts

__all__ = [
    "NOWHERE",
    "SURELY_SHORTER",
    "Edit",
    "Paths",
    "ask_for_edit",
    "fill_in",
    "plan_edit",
    "unsaved_notice",
]

SURELY_SHORTER = 5
"""A notice has fewer tokens than a text of so many times its characters: no character weighs less than a quarter of a
token, and none of a notice much more than a whole one."""
NOT_SHORTER = "no notice is shorter"
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
        session: The reducer's session.
        tool: The tool's name.
        exchange: The call and its result.
        texts: The result's text by block; None for an opaque one.
        characters: Characters of all of it.
        media: The opaque blocks, where they are taken out too.
        full: Paths of full texts that the result names: it was shortened before.
        answer: What a handler wants; None is the built-in way.
        own_path: Where the caller wants the result stored.
        paths: Where things are; before they are stored, paths of the same length. Empty if nothing is stored.
        result: The new result; None leaves the old one.
        arguments: The new arguments; None leaves the old ones.
    """

    __slots__ = (
        "answer",
        "arguments",
        "characters",
        "exchange",
        "full",
        "media",
        "own_path",
        "paths",
        "result",
        "session",
        "texts",
        "tool",
    )

    def __init__(self, session: str, tool: str, exchange: Exchange) -> None:
        content = exchange.result.content if exchange.result is not None else ""
        self.session = session
        self.tool = tool
        self.exchange = exchange
        self.texts: tuple[str | None, ...]
        if isinstance(content, str):
            self.texts, self.characters = (content,), len(content)
        else:
            self.texts = tuple([block_text(block) for block in content])
            self.characters = sum([len(text) for text in self.texts if text])
        self.media: list[MediaPart] = []
        self.full: tuple[str, ...] = ()
        self.answer: Reduced | None = None
        self.own_path: str | None = None
        self.paths = NOWHERE
        self.result: str | list[Any] | None = None
        self.arguments: Any = None

    @property
    def call(self) -> ToolCall:
        """What handlers and path generators get."""
        return ToolCall(self.exchange.call.id, self.tool, self.exchange.call.arguments, "clear", self.session)

    @property
    def media_call(self) -> ToolCall:
        """As `call`, for the names of media: the same picture of another call has the same file, in any process."""
        return dataclasses.replace(self.call, id="media")

    def settle(self) -> None:
        """Lets go of the old content: the ledger keeps its exchanges as long as the history lives."""
        self.exchange.result = None
        if self.arguments is not None:
            self.exchange.call = self.exchange.call._replace(arguments=None)


def plan_edit(context: Context, exchange: Exchange) -> Edit | str | None:
    """The edit of an answered exchange, the reason why it is left alone, or None if the caller's code has to be asked.

    Args:
        context: The reducer's settings and means.
        exchange: A call with its result.
    """
    result, tool = exchange.result, exchange.call.name or "tool"
    if result is None:
        return "the call has no result"
    rule = context.rule("clear", tool)
    if isinstance(rule, str):
        return rule
    if result.is_error and context.config.clear_keep_errors:
        return "the result is an error"
    if rule.handler is not None or context.config.gen_clear_offload_file_path is not None:
        return None
    edit = Edit(context.session, tool, exchange)
    return edit if _built_in(context, edit) else NOT_SHORTER


async def ask_for_edit(context: Context, exchange: Exchange) -> Edit | str:
    """As `plan_edit`, where a handler or a path generator of the caller's has to be asked.

    Args:
        context: The reducer's settings and means.
        exchange: A call with its result.
    """
    tool = exchange.call.name or "tool"
    rule = context.rule("clear", tool)
    edit = Edit(context.session, tool, exchange)
    if isinstance(rule, str) or exchange.result is None:
        return "nothing is to be done"
    if rule.handler is None:
        edit.own_path = await own_path(context.config.gen_clear_offload_file_path, edit.call)
        return edit if _built_in(context, edit) else NOT_SHORTER
    if await _is_handled(context, edit):
        return "its handler reduced it before"
    answer = await rule.handler(edit.call, exchange.result.content)
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
    store = context.store_for(edit.tool)
    if store is None or None in edit.texts:
        return False
    record = await store.records.of_replacement(texts_hash(edit.texts))
    return record is not None and record.kind == "cleared"


def _built_in(context: Context, edit: Edit) -> bool:
    """Fills the edit in; False if nothing of the exchange would get shorter."""
    if None in edit.texts and edit.exchange.result is not None:
        blocks = zip(edit.exchange.result.content, edit.texts, strict=True)
        edit.media = [media_part(block) for block, text in blocks if text is None]
    store = context.store_for(edit.tool)
    if store is not None:
        edit.full = named_texts(store.folder, edit.texts)
        call = edit.call
        path = store.default_path(call, _UNKNOWN_HASH, store.text_suffix)
        parts = [part for part in edit.media if part.data is not None]
        media = [store.default_path(edit.media_call, _UNKNOWN_HASH, part.suffix) for part in parts]
        edit.paths = Paths(edit.own_path or path, path, tuple(media))
    fill_in(context, edit, arguments=context.config.clear_tool_arguments)
    if not edit.media and not _is_shorter(str(edit.result), edit):
        edit.result = None
    return edit.result is not None or edit.arguments is not None


def _placeholder(context: Context, edit: Edit) -> str:
    notices, tool, paths = context.notices, shown_name(edit.tool), edit.paths
    if paths.result is None:
        return unsaved_notice(context, edit.tool, edit.characters)
    reader = context.config.read_file_tool_name
    named = ", ".join(paths.media[:_MEDIA_NAMED]) + (", ..." if len(paths.media) > _MEDIA_NAMED else "")
    full = ", ".join(path for path in edit.full if path != paths.result)
    return notices.cleared.format(
        tool=tool,
        path=paths.result,
        hint=notices.short_hint.format(reader=reader) if reader else "",
        characters=edit.characters,
        media=(notices.media.format(media_paths=named) if named else "")
        + (notices.full.format(full_paths=full) if full else ""),
    )


def _markers(context: Context, edit: Edit) -> Any:
    if not are_long(edit.exchange.call):
        return None
    notices, tool, path = context.notices, shown_name(edit.tool), edit.paths.arguments

    def marker(size: int) -> str:
        if path is None:
            return notices.argument_unsaved.format(tool=tool, characters=size)
        return notices.argument.format(tool=tool, path=path, characters=size)

    return cleared_arguments(edit.exchange.call, marker)


def unsaved_notice(context: Context, tool: str, characters: int) -> str:
    """What stands in the place of a cleared result that was not stored.

    Args:
        context: The reducer's settings and means.
        tool: The tool's name.
        characters: Characters of the result.
    """
    return context.notices.cleared_unsaved.format(tool=shown_name(tool), characters=characters)


def _is_shorter(shown: str, edit: Edit) -> bool:
    if edit.characters > SURELY_SHORTER * len(shown):
        return True
    if len(shown) >= edit.characters:
        return False
    return estimate_tokens(shown) < sum(estimate_tokens(text) for text in edit.texts if text)
