"""Both sandbox backends hold every law, through their real SDKs; a few laws of each group make the quick run."""

import socket

import pytest
from providers import PROVIDERS, Sandboxes, after

from stead.conformance import EnvironmentLaws

_MIB = 1 << 20


def faults_of(provider, kind):
    """What a fault of the laws means to a server, or None where it is made otherwise."""
    anything = {"times": -1}
    later = {"kind": "status", "status": 429, "headers": {"Retry-After": "1"}, "times": 2}
    old = {"kind": "status", "status": 401, "body": {"code": 401, "message": "the API key has expired"}, **anything}
    return {
        "cut": [{"route": provider.download, "kind": "cut", "after": 3 * _MIB, **anything}],
        "reset": [{"route": provider.download, "kind": "cut", "after": 100_000, **anything}],
        "silent": [{"route": provider.start, "kind": "stall", "skip": 1, **anything}],
        "full": [{"route": provider.upload, "kind": "full", **anything}],
        "throttled": [{"route": route, **later} for route in (provider.start, provider.download, provider.upload)],
        "expired": [{"route": provider.create, **old}],
    }.get(kind)


class SandboxEnvironmentLaws(EnvironmentLaws):
    """The laws on a sandbox that was made for each of them."""

    law_seconds = 300.0  # a write is two round trips, and some laws make thousands of them
    provider_name = ""
    quick = frozenset(
        {
            "execute-background-returns",
            "execute-cancel",
            "execute-signal",
            "execute-stdin",
            "execute-stream-live",
            "execute-timeout",
            "execute-timeout-kills-orphans",
            "life-ten-first-uses",
            "lines-giant-line-paged",
            "list-recursive",
            "path-link-out",
            "read-no-permission",
            "sandbox-cancelled-start",
            "sandbox-expired",
            "sandbox-failed-start",
            "sandbox-not-kept-alive",
            "sandbox-recreated",
            "stream-replaced-midway",
            "write-create-only-one-winner",
            "write-if-version",
            "write-keeps-mode",
        }
    )
    """Laws of the quick run; all others are for the soak."""

    @pytest.fixture
    def made(self, servers):
        server = servers(self.provider_name)
        made = PROVIDERS[self.provider_name](server).made()
        self.root = str(made.root)
        yield made
        server.expire(made.id)

    @pytest.fixture
    def environment(self, made):
        return made.environment(on_close="kill")

    @pytest.fixture
    def second_environment(self, made):
        return made.environment()

    @pytest.fixture
    def sandboxes(self, servers):
        server = servers(self.provider_name)
        yield Sandboxes(PROVIDERS[self.provider_name](server))
        server.expire()
        server.reset()

    @pytest.fixture
    def raw(self, made):
        return made.door

    @pytest.fixture
    def faulty(self, made):
        provider = made.provider

        def make(kind):
            if kind == "denied":
                return made.environment(api_key="wrong_key")
            if kind == "unavailable":
                with socket.socket() as nobody:
                    nobody.bind(("127.0.0.1", 0))
                    port = nobody.getsockname()[1]
                return made.environment(url=f"http://127.0.0.1:{port}", request_timeout=2)
            if kind == "no-store":
                return provider.environment(sandbox_id="i0123456789")
            if kind == "lost":
                after(2.5, lambda: provider.server.expire(made.id))
                return made.environment()
            faults = faults_of(provider, kind)
            return made.environment(url=provider.fault_url(*faults)) if faults else None

        return make


class TestE2B(SandboxEnvironmentLaws):
    """E2B, through the package `e2b`."""

    provider_name = backend = "e2b"


class TestDaytona(SandboxEnvironmentLaws):
    """Daytona, through the package `daytona`."""

    provider_name = backend = "daytona"
