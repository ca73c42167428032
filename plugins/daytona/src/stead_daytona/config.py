"""The options of the backend `daytona`, for configuration files and their JSON Schema."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from stead.config import BackendOptions, StateDir

__all__ = ["DaytonaOptions"]


class DaytonaOptions(BackendOptions):
    """The options of `daytona`, as `DaytonaEnvironment` takes them."""

    api_key: SecretStr | None = None
    """The key; else the variable DAYTONA_API_KEY."""
    api_url: Annotated[str, Field(pattern="^https?://")] | None = None
    """Daytona's API; else the variable DAYTONA_API_URL, else the cloud's."""
    target: Annotated[str, Field(min_length=1)] | None = None
    """The region of a new sandbox; else the variable DAYTONA_TARGET, else the organization's."""
    image: Annotated[str, Field(min_length=1)] | None = None
    """The image that a new sandbox is made of, instead of a snapshot."""
    snapshot: Annotated[str, Field(min_length=1)] | None = None
    """The snapshot that a new sandbox is made of; else Daytona's default."""
    sandbox_id: Annotated[str, Field(min_length=1)] | None = None
    """Attach to this sandbox, by id or name, instead of making one; a stopped one is started."""
    auto_stop: Annotated[int, Field(ge=1)] = 15
    """Minutes without a call after which Daytona stops the sandbox."""
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120
    """Seconds that a sandbox may take to start."""
    request_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60
    """Seconds that one request to Daytona may take."""
    keep_alive: bool = True
    """Tell Daytona every third of `auto_stop` that the sandbox is in use, while the environment is open."""
    recreate: bool = False
    """Replace a sandbox that is gone by a new one, without its files, instead of failing from then on."""
    root: Annotated[str, Field(pattern="^/")] | None = None
    """What paths may not leave, on the sandbox; else `/`."""
    working_dir: Annotated[str, Field(pattern="^/")] | None = None
    """Where relative paths start and commands run; else `root`, else where the sandbox starts commands by itself."""
    state_dir: StateDir = ".stead"
    """Where spilled output and offloads go, relative to the working directory."""
    envs: dict[str, str] | None = None
    """Variables of every command."""
    output_limit: Annotated[int, Field(ge=0)] = 1 << 20
    """Bytes of each stream of a command that a result holds; the rest is spilled to a file in the sandbox."""
    on_close: Literal["kill", "pause", "keep"] | None = None
    """What closing does to the sandbox; else kill one that was made here, keep one that was attached."""
