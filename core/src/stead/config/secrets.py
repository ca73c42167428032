"""Secrets: named by reference instead of written down, and never shown."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeGuard

from pydantic import SecretBytes, SecretStr

from stead.errors import ConfigError

__all__ = ["is_reference", "looks_secret", "masked", "read_reference", "revealed", "scrubbed", "secrets_in"]

_SECRET_NAME = re.compile(r"secret|token|password|passwd|credential|key", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Returns True if an option of that name, of which nothing else is known, is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def is_reference(value: object) -> TypeGuard[Mapping[str, str]]:
    """Returns True for a table with the one key `env` or `file` and a text."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    kind, target = next(iter(value.items()))
    return kind in ("env", "file") and isinstance(target, str) and target != ""


def read_reference(value: Mapping[str, str], *, folder: Path, where: str) -> SecretStr:
    """Fetches what a reference names.

    Args:
        value: `{"env": "NAME"}` or `{"file": "path"}`.
        folder: Where a relative path starts.
        where: Which option it is, for the message.

    Returns:
        The text; of a file without its one final newline.

    Raises:
        ConfigError: The variable is not set, or the file cannot be read.
    """
    kind, target = next(iter(value.items()))
    if kind == "env":
        text = os.environ.get(target)
        if text is None:
            raise ConfigError(f"{where}: the environment variable {target} is not set")
        return SecretStr(text)
    path = folder / os.path.expanduser(target)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{where}: cannot read the file {str(path)!r}: {reason}") from None
    return SecretStr(text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


def masked(value: object, *, secret: bool) -> object:
    """Copies a value with each text that is secret in a `SecretStr`, which shows as asterisks.

    Args:
        value: Plain data; references in it stay as they are, since they give nothing away.
        secret: Whether a text here is one. Inside tables the key of each entry decides too.
    """
    if is_reference(value):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: masked(item, secret=secret or looks_secret(str(key))) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item, secret=secret) for item in value]
    return SecretStr(value) if secret and isinstance(value, str) else value


def revealed(value: object) -> object:
    """Copies a value with the text of each secret in the open, to be handed to a backend."""
    if isinstance(value, (SecretStr, SecretBytes)):
        return value.get_secret_value()
    # The exact types of plain data: a caller's own mapping or named tuple is handed on as it is.
    if type(value) is dict:
        return {key: revealed(item) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(map(revealed, value))
    return value


def secrets_in(value: object) -> Iterable[str]:
    """Yields the text of each secret in a value."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from secrets_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secrets_in(item)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Returns the text with every secret in it replaced, also where it is quoted."""
    forms = {form for secret in secrets if secret for form in (secret, repr(secret)[1:-1])}
    for secret in sorted(forms, key=len, reverse=True):
        text = text.replace(secret, "**********")
    return text
