"""Large content in small pieces, so that hashing and storing it needs no second copy of it."""

from collections.abc import Iterator

__all__ = ["Content", "encoded", "pieces_of"]

Content = str | bytes
"""What is stored: a text, without lone surrogates, or bytes."""

_PIECE = 1 << 18


def encoded(text: str, errors: str = "strict") -> Iterator[bytes]:
    """The UTF-8 of a text, at most 1 MiB at a time.

    Args:
        text: Any text.
        errors: What to do with lone surrogates, as for `str.encode`.

    Raises:
        UnicodeEncodeError: `errors` is strict and there is one.
    """
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE].encode(errors=errors)


def pieces_of(content: Content) -> Iterator[bytes]:
    """The bytes of what is stored, piece by piece."""
    if isinstance(content, str):
        yield from encoded(content)
    else:
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]
