"""Which of the host's environment variables a command gets to see."""

import os
from collections.abc import Mapping

__all__ = ["ALLOWED", "ALLOWED_PREFIXES", "PROXIES", "host_variables", "without_userinfo"]

ALLOWED = frozenset(
    {
        # Who and where.
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP",
        # How text and time look.
        "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ",
        # Which certificates to trust behind a proxy: paths, no secrets.
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
        # Which Python.
        "VIRTUAL_ENV",
    }
)  # fmt: skip
"""Names that a command gets from the host."""

ALLOWED_PREFIXES = ("LC_",)
"""Names that begin like this are handed on too."""

PROXIES = frozenset({"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"})
"""Handed on in lower and upper case, without the `user:password@` that a proxy's address may hold."""


def host_variables(host: Mapping[str, str] | None = None, *, inherit: bool = False) -> dict[str, str]:
    """Returns the variables that a command gets before the caller's own are added.

    Args:
        host: The host's variables; None is this process's, as they are now.
        inherit: True hands all of them on, secrets and all.
    """
    host = os.environ if host is None else host
    if inherit:
        return dict(host)
    kept = {}
    for name, value in host.items():
        if name.lower() in PROXIES:
            kept[name] = without_userinfo(value)
        elif name in ALLOWED or name.startswith(ALLOWED_PREFIXES):
            kept[name] = value
    return kept


def without_userinfo(address: str) -> str:
    """Returns a proxy's address without user name and password."""
    scheme, mark, rest = address.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
