"""What of a stream passes at once, what waits, and when it is certain that the whole is too long. No I/O."""

from dataclasses import dataclass, field
from typing import Any

from stead.reducer.messages.blocks import block_text, with_text
from stead.reducer.preview import safe_cut

__all__ = ["Gate", "Passed"]


@dataclass(slots=True)
class Passed:
    """What one block makes possible."""

    blocks: list[Any] = field(default_factory=list)
    """To hand on now."""
    swallowed: str = ""
    """Text that is not handed on."""
    overflowed: bool = False
    """True for the block that made the stream too long; `swallowed` then is all text from the stream's beginning."""


class Gate:
    """Passes blocks on while they fit, holds the last of them back until a notice is known not to be needed.

    Args:
        passing: Characters that pass at once.
        threshold: Characters of the whole stream above which the rest is swallowed.
    """

    def __init__(self, *, passing: int, threshold: int) -> None:
        self._passing = passing
        self._threshold = threshold
        self._seen: list[str] = []
        self._held: list[tuple[Any, str | None]] = []
        self._passed: list[str] = []
        self._passed_chars = 0
        self._source_chars = 0
        self.closed = False
        """True once the stream was too long."""
        self.last_text_block: Any = ""

    @property
    def passed_text(self) -> str:
        """The text that was handed on."""
        return "".join(self._passed)

    @property
    def holds(self) -> bool:
        """True if something is held back."""
        return bool(self._held)

    @property
    def seen_text(self) -> str:
        """All text so far; empty once the stream was too long."""
        return "".join(self._seen)

    @property
    def source_chars(self) -> int:
        """Characters that came from the source."""
        return self._source_chars

    def feed(self, block: Any, text: str | None, source_chars: int) -> Passed:
        """Takes one block.

        Args:
            block: A text or opaque block.
            text: Its text, redacted; None if it is opaque.
            source_chars: Length of its text before redaction, which is what decides.
        """
        if text is None:
            if self._held and not self.closed:
                self._held.append((block, None))
                return Passed()
            return Passed([block])
        self.last_text_block = block
        self._source_chars += source_chars
        if self.closed:
            return Passed(swallowed=text)
        self._seen.append(text)
        out = Passed()
        if text:
            self._admit(out, block, text)
        if self._source_chars > self._threshold:
            self._close(out)
        return out

    def release(self) -> list[Any]:
        """The blocks that were held back; the stream ended and fits."""
        return [block if text is None else _reblocked(block, text) for block, text in self._held]

    def _admit(self, out: Passed, block: Any, text: str) -> None:
        room = self._passing - self._passed_chars
        if self._held or room <= 0:
            self._held.append((block, text))
            return
        cut = len(text) if len(text) <= room else safe_cut(text, room)
        if cut:
            out.blocks.append(_reblocked(block, text[:cut]))
            self._passed.append(text[:cut])
            self._passed_chars += cut
        if cut < len(text):
            self._held.append((block, text[cut:]))

    def _close(self, out: Passed) -> None:
        self.closed = True
        # Opaque blocks never count, and are not swallowed.
        out.blocks += [block for block, text in self._held if text is None]
        out.swallowed, out.overflowed = "".join(self._seen), True
        self._held.clear()
        self._seen.clear()


def _reblocked(block: Any, text: str) -> Any:
    return block if block_text(block) == text else with_text(block, text)
