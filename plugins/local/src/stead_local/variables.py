"""Which of the host's environment variables a command gets to see."""

import os
from collections.abc import Mapping

__all__ = ["ALLOWED", "PROXIES", "host_variables", "without_userinfo"]

ALLOWED = (
    # Who and where.
    b"PATH", b"HOME", b"USER", b"LOGNAME", b"SHELL", b"TMPDIR", b"TMP", b"TEMP",
    # How text and time look.
    b"LANG", b"LANGUAGE", b"LC_ALL", b"LC_COLLATE", b"LC_CTYPE", b"LC_MESSAGES", b"LC_MONETARY", b"LC_NUMERIC",
    b"LC_TIME", b"TERM", b"COLORTERM", b"NO_COLOR", b"TZ",
    # Which certificates to trust behind a proxy: paths, no secrets.
    b"SSL_CERT_FILE", b"SSL_CERT_DIR", b"REQUESTS_CA_BUNDLE", b"CURL_CA_BUNDLE", b"NODE_EXTRA_CA_CERTS",
    # Which Python.
    b"VIRTUAL_ENV",
)  # fmt: skip
"""Names that a command gets from the host, as they are."""

PROXIES = tuple(
    spelling
    for name in (b"http_proxy", b"https_proxy", b"ftp_proxy", b"all_proxy", b"no_proxy")
    for spelling in (name, name.upper())
)
"""Names handed on without the `user:password@` that a proxy's address may hold."""

_NAMES = frozenset(ALLOWED + PROXIES)


def host_variables(host: Mapping[bytes, bytes] | None = None, *, inherit: bool = False) -> dict[bytes, bytes]:
    """Returns the variables that a command gets before the caller's own are added.

    Args:
        host: The host's variables; None is this process's, as they are now.
        inherit: True hands all of them on, secrets and all.
    """
    host = os.environb if host is None else host
    if inherit:
        return dict(host)
    # One pass over what is there: asking `os.environb` for a name that is not costs an exception, 30 times a command.
    present = _NAMES.intersection(host)
    kept = {name: host[name] for name in ALLOWED if name in present}
    kept.update((name, without_userinfo(host[name])) for name in PROXIES if name in present)
    return kept


def without_userinfo(address: bytes) -> bytes:
    """Returns a proxy's address without user name and password."""
    scheme, mark, rest = address.rpartition(b"://")
    return scheme + mark + rest.rpartition(b"@")[2]
