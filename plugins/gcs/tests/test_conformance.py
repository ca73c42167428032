"""The GCS backend holds every law over fake-gcs-server; what the server cannot do is a waiver with its reason."""

import secrets
from collections import Counter

import pytest
from gcs_support import BucketDoor, refusal
from servers.clean import live
from servers.fault_proxy import Fault, FaultProxy
from servers.process import free_port

from stead.conformance import EnvironmentLaws
from stead_gcs import GcsEnvironment

_CUT = 3_000_000


def twice_each():
    """Matches the first two requests of each kind."""
    seen = Counter()

    def matches(request):
        seen[request.method] += 1
        return seen[request.method] <= 2

    return matches


def media(request):
    """Matches requests for the bytes of an object."""
    return "alt=media" in request.target


FAULTS = {
    "cut": lambda: Fault("end", after=_CUT, matches=media),
    "reset": lambda: Fault("reset", after=_CUT, matches=media),
    "corrupt": lambda: Fault("corrupt", after=_CUT, matches=media),
    "denied": lambda: Fault("answer", response=refusal(401, "Invalid Credentials", "authError")),
    "expired": lambda: Fault("answer", response=refusal(401, "Token expired", "authError")),
    "throttled": lambda: Fault("answer", response=refusal(429, "Slow down", "rateLimitExceeded"), matches=twice_each()),
    "full": lambda: Fault("answer", response=refusal(507, "no room"), matches=lambda r: r.method == "POST"),
}


class TestFakeGcs(EnvironmentLaws):
    """Over fake-gcs-server."""

    backend = "gcs"
    root = "/"
    large_file = 64 << 20
    law_seconds = 120.0
    waivers = {
        "object-parts-create-only": "fake-gcs-server ignores ifGenerationMatch of a resumable upload",
        "object-parts-if-version": "fake-gcs-server ignores ifGenerationMatch of a resumable upload",
    }

    @pytest.fixture
    def place(self, server):
        return server.options(prefix=f"laws-{secrets.token_hex(4)}/deep")

    @pytest.fixture
    def environment(self, place):
        return GcsEnvironment(**place)

    @pytest.fixture
    def second_environment(self, place):
        return GcsEnvironment(**place)

    @pytest.fixture
    def raw(self, server, place):
        return BucketDoor(server, place["prefix"])

    @pytest.fixture
    def faulty(self, server, place):
        with FaultProxy(server.url) as proxy:

            def make(fault):
                if fault == "unavailable":
                    return GcsEnvironment(**{**place, "endpoint_url": f"http://127.0.0.1:{free_port()}"})
                if fault == "no-store":
                    return GcsEnvironment(**{**place, "bucket": "no-such-bucket"})
                if fault not in FAULTS:
                    return None
                proxy.faults[:] = [FAULTS[fault]()]
                return GcsEnvironment(**{**place, "endpoint_url": proxy.url})

            yield make


if live("gcs"):

    class TestLive(EnvironmentLaws):
        """Over Google's service, only if it was asked for."""

        backend = "gcs"
        root = "/"
        large_file = 64 << 20
        law_seconds = 300.0

        @pytest.fixture
        def environment(self):
            return GcsEnvironment(live("gcs"), prefix=f"stead-laws-{secrets.token_hex(4)}")
