"""Collects what one message of parts or blocks holds."""

from typing import Any

from stead.reducer.messages.codec import ArgumentsForm, Call, Content, Media, Result, Role, View

__all__ = ["Parts"]


class Parts:
    """The growing view of one message."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.results: list[Result] = []
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.media: list[Media] = []
        self.signed = False

    def call(self, identity: str | None, name: str | None, arguments: Any, *, signed: bool = False) -> None:
        """Takes a call; text is taken for JSON, anything else for an object."""
        form: ArgumentsForm = "json" if isinstance(arguments, str) else "object"
        self.calls.append(Call(len(self.calls), identity, name or "", arguments, form, signed))
        self.signed = self.signed or signed

    def result(self, identity: str | None, name: str | None, content: Content, *, is_error: bool) -> None:
        """Takes a result."""
        self.results.append(Result(len(self.results), identity, name, content, is_error))

    def view(self, role: Role) -> View:
        """All that was taken; a user message with nothing but results has the role `"tool"`."""
        if role == "user" and self.results and not self.texts and not self.media:
            role = "tool"
        return View(
            role,
            tuple(self.calls),
            tuple(self.results),
            tuple(self.texts),
            tuple(self.reasoning),
            tuple(self.media),
            self.signed,
        )
