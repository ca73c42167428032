"""The S3 backend holds every law, on two servers; what a server cannot do is a waiver with its reason."""

import secrets
from collections import Counter

import pytest
from s3_support import BucketDoor, refusal
from servers.clean import live
from servers.fault_proxy import Fault, FaultProxy
from servers.process import free_port

from stead.conformance import EnvironmentLaws
from stead_s3 import S3Environment

_CUT = 3_000_000


def twice_each() -> "object":
    """Matches the first two requests of each kind."""
    seen = Counter()

    def matches(request):
        seen[request.method] += 1
        return seen[request.method] <= 2

    return matches


FAULTS = {
    "cut": lambda: Fault("end", after=_CUT, matches=lambda r: r.method == "GET" and "list-type" not in r.target),
    "reset": lambda: Fault("reset", after=_CUT, matches=lambda r: r.method == "GET" and "list-type" not in r.target),
    "corrupt": lambda: Fault("corrupt", after=_CUT, matches=lambda r: r.method == "GET"),
    "denied": lambda: Fault("answer", response=refusal(403, "InvalidAccessKeyId", "no such key")),
    "expired": lambda: Fault("answer", response=refusal(403, "ExpiredToken", "The provided token has expired.")),
    "throttled": lambda: Fault("answer", response=refusal(503, "SlowDown", "Please slow down"), matches=twice_each()),
    "full": lambda: Fault("answer", response=refusal(507, "InsufficientStorage"), matches=lambda r: r.method == "PUT"),
}


class ServerLaws:
    """What the classes of both servers share."""

    backend = "s3"
    root = "/"
    large_file = 64 << 20
    law_seconds = 120.0

    @pytest.fixture
    def place(self, server):
        return server.options(prefix=f"laws-{secrets.token_hex(4)}/deep")

    @pytest.fixture
    def environment(self, place):
        return S3Environment(**place)

    @pytest.fixture
    def second_environment(self, place):
        return S3Environment(**place)

    @pytest.fixture
    def raw(self, server, place):
        door = BucketDoor(server, place["prefix"])
        yield door
        door.close()

    @pytest.fixture
    def faulty(self, server, place):
        with FaultProxy(server.url) as proxy:

            def make(fault):
                if fault == "unavailable":
                    return S3Environment(**{**place, "endpoint_url": f"http://127.0.0.1:{free_port()}"})
                if fault == "no-store":
                    return S3Environment(**{**place, "bucket": "no-such-bucket"})
                if fault == "denied" and server.name == "seaweedfs":
                    return S3Environment(**{**place, "secret_key": "wrong-secret"})
                if fault not in FAULTS:
                    return None
                proxy.faults[:] = [FAULTS[fault]()]
                return S3Environment(**{**place, "endpoint_url": proxy.url})

            yield make


class TestSeaweedFS(ServerLaws, EnvironmentLaws):
    """Over SeaweedFS."""

    waivers = {
        "object-printable-names": "SeaweedFS stores a backslash in a key as a slash",
        "path-backslash": "SeaweedFS stores a backslash in a key as a slash",
        "path-odd-names-listed": "SeaweedFS stores a backslash in a key as a slash",
    }

    @pytest.fixture
    def server(self, seaweed):
        return seaweed


class TestMoto(ServerLaws, EnvironmentLaws):
    """Over moto, which answers a hundred requests a second: most laws are marked slow."""

    waivers = {
        "object-parts-if-version": "moto ignores If-Match when an upload in parts is completed",
        "stream-range-cost": "moto takes the whole object to answer a range",
        "path-odd-names": "moto cannot find a bucket in a URL that has a newline",
        "path-odd-names-listed": "moto cannot find a bucket in a URL that has a newline",
        "path-runs-nothing": "moto cannot find a bucket in a URL that has a newline",
    }

    @pytest.fixture
    def server(self, moto_server):
        return moto_server


if live("s3"):

    class TestLive(EnvironmentLaws):
        """Over AWS, only if it was asked for."""

        backend = "s3"
        root = "/"
        large_file = 64 << 20
        law_seconds = 300.0

        @pytest.fixture
        def environment(self):
            return S3Environment(live("s3"), prefix=f"stead-laws-{secrets.token_hex(4)}")
