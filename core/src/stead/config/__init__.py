"""Configuration by file: `stead.toml`, environment variables over it, secrets by reference."""

from stead.config.files import FILE_NAME, load_config
from stead.config.model import Config, EnvironmentConfig, Located
from stead.config.options import BackendOptions, StateDir

__all__ = ["FILE_NAME", "BackendOptions", "Config", "EnvironmentConfig", "Located", "StateDir", "load_config"]
