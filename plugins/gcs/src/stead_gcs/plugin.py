"""Registers the backend `gcs`."""

from stead.capabilities import OBJECT_STORE
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files in a bucket of Google Cloud Storage."""
    return BackendSpec(
        name="gcs",
        summary="Files below a prefix of a Google Cloud Storage bucket; no commands",
        contract="1.0",
        factory="stead_gcs.environment:GcsEnvironment",
        options="stead_gcs.config:GcsOptions",
        capabilities=OBJECT_STORE,
    )
