"""The S3 backend: files in a bucket of S3, or of a store that speaks its protocol."""

from stead.capabilities import OBJECT_STORE
from stead.errors import ConfigError
from stead_fsspec.base import StoreEnvironment, normal_prefix
from stead_s3.client import Access
from stead_s3.files import S3Store

__all__ = ["S3Environment"]


class S3Environment(StoreEnvironment):
    """Files below a prefix of a bucket. It runs no commands.

    A version is the ETag: equal bytes written again may have the same. Under a condition that AWS decides, a write is
    atomic; a store at an `endpoint_url` is tried once before a condition is relied on, since some ignore them.
    """

    capabilities = OBJECT_STORE

    def __init__(  # noqa: PLR0913 - each is an option of the configuration
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        state_dir: str = ".stead",
        timeout: float = 30.0,
        parallel: int = 1,
        checksums: bool = True,
    ) -> None:
        """Takes the options; asks for nothing. What is not given comes from the usual places of AWS's SDK.

        Args:
            bucket: The bucket. It must exist.
            prefix: How all keys begin: a directory of the bucket, which is the root of this environment.
            endpoint_url: Where a store other than AWS listens, with its scheme.
            region: The region of the bucket.
            access_key: The access key id.
            secret_key: The secret access key.
            session_token: The token of temporary credentials.
            profile: A profile of the SDK's own configuration files.
            anonymous: Send no credentials at all.
            state_dir: Where stead keeps files of its own, relative to the root.
            timeout: Seconds without a byte after which a connection counts as broken.
            parallel: How many ranges of a large file are read, or parts of one written, at once, 1 to 64: for networks
                where one connection is slow. Each takes up to 16 MiB of memory.
            checksums: Send and check CRC32 sums; False for stores that do not know them.

        Raises:
            ConfigError: An option cannot be used.
        """
        if not bucket or "/" in bucket:
            raise ConfigError(f"a bucket is a name without slashes, not {bucket!r}; a prefix goes into `prefix`")
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds, not {timeout}")
        if anonymous and (access_key or secret_key or profile):
            raise ConfigError("anonymous means no credentials; leave out access_key, secret_key and profile")
        if (access_key is None) != (secret_key is None):
            raise ConfigError("access_key and secret_key go together; give both, or neither")
        access = Access(
            bucket=bucket,
            endpoint_url=endpoint_url,
            region=region,
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
            profile=profile,
            anonymous=anonymous,
            timeout=timeout,
            checksums=checksums,
        )
        root = normal_prefix(prefix)
        own = "/".join(part for part in (root, state_dir.strip("/")) if part)
        super().__init__(S3Store(access, own), prefix=root, state_dir=state_dir, parallel=parallel)
        self._shown = f"s3://{bucket}/{root}"

    def __repr__(self) -> str:
        return f"S3Environment({self._shown!r})"
