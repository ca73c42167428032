"""The options of the backend `gcs`, for configuration files and their JSON Schema."""

from typing import Annotated

from pydantic import Field, SecretStr

from stead.config import BackendOptions, StateDir

__all__ = ["GcsOptions"]


class GcsOptions(BackendOptions):
    """The options of `gcs`, as `GcsEnvironment` takes them. Credentials that are not given are Google's default ones."""

    bucket: Annotated[str, Field(min_length=1)]
    """The bucket. It must exist."""
    prefix: str = ""
    """How all names of objects begin: a directory of the bucket, which is the root of the environment."""
    project: str | None = None
    """The project that is billed, where the bucket's owner does not pay."""
    credentials: SecretStr | None = None
    """The text of a key file, best as `{ file = "key.json" }`; the path of one; or an access token."""
    endpoint_url: str | None = None
    """Where another server listens, with its scheme."""
    anonymous: bool = False
    """Whether to send no credentials at all."""
    state_dir: StateDir = ".stead"
    """Where stead keeps files of its own, relative to the root."""
    timeout: Annotated[float, Field(gt=0)] = 30
    """Seconds without a byte after which a connection counts as broken."""
    parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """How many ranges of a large file are read at once: for networks where one connection is slow."""
