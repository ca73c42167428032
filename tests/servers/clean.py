"""Keeps tests away from anything that costs money."""

import os

__all__ = ["live", "strip_providers"]

_PREFIXES = ("AWS_", "BOTO", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "GCS_", "STORAGE_EMULATOR_")
_NOWHERE = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "CLOUDSDK_CONFIG": os.devnull,
    "NO_GCE_CHECK": "true",
}


def live(provider: str) -> str | None:
    """Returns the bucket to test on at a provider, if that was asked for.

    Args:
        provider: `"s3"` or `"gcs"`; `STEAD_TEST_LIVE` must name it, and `STEAD_TEST_S3_BUCKET` or
            `STEAD_TEST_GCS_BUCKET` a bucket.
    """
    if provider not in os.environ.get("STEAD_TEST_LIVE", "").split(","):
        return None
    return os.environ.get(f"STEAD_TEST_{provider.upper()}_BUCKET")


def strip_providers() -> None:
    """Takes the providers' variables out of this process, unless tests against them were asked for."""
    if live("s3") or live("gcs"):
        return
    for name in list(os.environ):
        if name.startswith(_PREFIXES):
            del os.environ[name]
    os.environ.update(_NOWHERE)
