"""The options of the backend `e2b`, for configuration files and their JSON Schema."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from stead.config import BackendOptions, StateDir

__all__ = ["E2BOptions"]


class E2BOptions(BackendOptions):
    """The options of `e2b`, as `E2BEnvironment` takes them."""

    api_key: SecretStr | None = None
    """The key; else the variable E2B_API_KEY."""
    template: Annotated[str, Field(min_length=1)] | None = None
    """What a new sandbox is made of; else E2B's `base`."""
    sandbox_id: Annotated[str, Field(min_length=1)] | None = None
    """Attach to this sandbox instead of making one; a paused one is resumed."""
    timeout: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 300
    """Seconds that the sandbox lives without being extended."""
    request_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60
    """Seconds that one request to E2B may take."""
    keep_alive: bool = True
    """Extend the sandbox every third of `timeout` while the environment is open."""
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
    domain: Annotated[str, Field(min_length=1)] | None = None
    """E2B's domain; else the variable E2B_DOMAIN, else `e2b.app`."""
    api_url: Annotated[str, Field(pattern="^https?://")] | None = None
    """The control plane of a self-hosted E2B."""
    sandbox_url: Annotated[str, Field(pattern="^https?://")] | None = None
    """The sandboxes of a self-hosted E2B."""
    on_close: Literal["kill", "pause", "keep"] | None = None
    """What closing does to the sandbox; else kill one that was made here, keep one that was attached."""
