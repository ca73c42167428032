"""The options of the backend `s3`, for configuration files and their JSON Schema."""

from typing import Annotated

from pydantic import Field, SecretStr

from stead.config import BackendOptions, StateDir

__all__ = ["S3Options"]


class S3Options(BackendOptions):
    """The options of `s3`, as `S3Environment` takes them. What is not given comes from the usual places of AWS's SDK."""

    bucket: Annotated[str, Field(min_length=1)]
    """The bucket. It must exist."""
    prefix: str = ""
    """How all keys begin: a directory of the bucket, which is the root of the environment."""
    endpoint_url: str | None = None
    """Where a store other than AWS listens, with its scheme."""
    region: str | None = None
    """The region of the bucket."""
    access_key: str | None = None
    """The access key id."""
    secret_key: SecretStr | None = None
    """The secret access key."""
    session_token: SecretStr | None = None
    """The token of temporary credentials."""
    profile: str | None = None
    """A profile of the SDK's own configuration files."""
    anonymous: bool = False
    """Whether to send no credentials at all."""
    state_dir: StateDir = ".stead"
    """Where stead keeps files of its own, relative to the root."""
    timeout: Annotated[float, Field(gt=0)] = 30
    """Seconds without a byte after which a connection counts as broken."""
    parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """How many ranges of a large file are read, or parts of one written, at once: for slow connections."""
    checksums: bool = True
    """Whether to send and check CRC32 sums; false for stores that do not know them."""
