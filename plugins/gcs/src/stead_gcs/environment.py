"""The GCS backend: files in a bucket of Google Cloud Storage."""

from typing import Any

from stead.capabilities import OBJECT_STORE
from stead.errors import ConfigError
from stead_fsspec.base import StoreEnvironment, normal_prefix
from stead_gcs.client import Access
from stead_gcs.files import GcsStore

__all__ = ["GcsEnvironment"]


class GcsEnvironment(StoreEnvironment):
    """Files below a prefix of a bucket. It runs no commands.

    A version is the generation: each write makes another. Content is read as it is stored, also where the object says
    that it is compressed (`Content-Encoding: gzip`).
    """

    capabilities = OBJECT_STORE

    def __init__(  # noqa: PLR0913 - each is an option of the configuration
        self,
        bucket: str,
        *,
        prefix: str = "",
        project: str | None = None,
        credentials: Any = None,
        endpoint_url: str | None = None,
        anonymous: bool = False,
        state_dir: str = ".stead",
        timeout: float = 30.0,
        parallel: int = 1,
    ) -> None:
        """Takes the options; asks for nothing.

        Args:
            bucket: The bucket. It must exist.
            prefix: How all names of objects begin: a directory of the bucket, which is the root of this environment.
            project: The project that is billed, where the bucket's owner does not pay.
            credentials: The text of a key file, its path, its content as a mapping, an access token, or an object of
                google-auth; None is Google's default credentials.
            endpoint_url: Where another server listens, with its scheme.
            anonymous: Send no credentials at all.
            state_dir: Where stead keeps files of its own, relative to the root.
            timeout: Seconds without a byte after which a connection counts as broken.
            parallel: How many ranges of a large file are read at once, 1 to 64: for networks where one connection is
                slow. Each takes 8 MiB of memory. Parts are written one after the other.

        Raises:
            ConfigError: An option cannot be used.
        """
        if not bucket or "/" in bucket:
            raise ConfigError(f"a bucket is a name without slashes, not {bucket!r}; a prefix goes into `prefix`")
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds, not {timeout}")
        if anonymous and credentials is not None:
            raise ConfigError("anonymous means no credentials; leave out credentials")
        access = Access(
            bucket=bucket,
            project=project,
            credentials=credentials,
            endpoint_url=endpoint_url,
            anonymous=anonymous,
            timeout=timeout,
        )
        super().__init__(GcsStore(access), prefix=prefix, state_dir=state_dir, parallel=parallel)
        self._shown = f"gs://{bucket}/{normal_prefix(prefix)}"

    def __repr__(self) -> str:
        return f"GcsEnvironment({self._shown!r})"
