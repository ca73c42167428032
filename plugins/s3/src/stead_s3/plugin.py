"""Registers the backend `s3`."""

from stead.capabilities import OBJECT_STORE
from stead.hookspecs import BackendSpec, hookimpl

__all__ = ["stead_backend"]


@hookimpl
def stead_backend() -> BackendSpec:
    """Files in a bucket of S3."""
    return BackendSpec(
        name="s3",
        summary="Files below a prefix of an S3 bucket, or of a store that speaks its protocol; no commands",
        contract="1.0",
        factory="stead_s3.environment:S3Environment",
        options="stead_s3.config:S3Options",
        capabilities=OBJECT_STORE,
    )
