"""Environments of other libraries, each made on a folder of its own: targets of `stead conformance`."""

from pathlib import Path

from stead import Environment
from stead.conformance import adapters


def adk_local(folder: str) -> Environment:
    """Google ADK's LocalEnvironment."""
    from google.adk.environment import LocalEnvironment

    return adapters.AdkEnvironment(LocalEnvironment(working_dir=Path(folder)), folder)


def deepagents_shell(folder: str) -> Environment:
    """deepagents' LocalShellBackend as it comes: virtual paths, so that `/` is the folder; PATH added for commands."""
    from deepagents.backends import LocalShellBackend

    return adapters.DeepAgentsEnvironment(LocalShellBackend(_made(folder), env={"PATH": "/usr/bin:/bin"}))


def deepagents_files(folder: str) -> Environment:
    """deepagents' FilesystemBackend as it comes."""
    from deepagents.backends import FilesystemBackend

    return adapters.DeepAgentsEnvironment(FilesystemBackend(_made(folder)))


def pydantic_ai_local(folder: str) -> Environment:
    """Pydantic AI's LocalWorkspaceBackend."""
    from pydantic_ai.workspaces import LocalWorkspaceBackend

    return adapters.PydanticAIEnvironment(LocalWorkspaceBackend(_made(folder)), folder)


def fsspec_local(folder: str) -> Environment:
    """fsspec's LocalFileSystem."""
    import fsspec

    return adapters.FsspecEnvironment(fsspec.filesystem("file"), folder)


def fsspec_memory(folder: str) -> Environment:
    """fsspec's MemoryFileSystem, which all of a process shares."""
    import fsspec

    return adapters.FsspecEnvironment(fsspec.filesystem("memory"), folder)


def _made(folder: str) -> str:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return folder
