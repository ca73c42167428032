"""Options, from code and from files."""

import pytest
from servers.sandbox_plugins import OptionTests

from stead.errors import ConfigError
from stead_e2b import E2BEnvironment
from stead_e2b.config import E2BOptions
from stead_e2b.plugin import stead_backend


class TestOptions(OptionTests):
    """The tests of all sandbox plugins."""

    environment, options, spec = E2BEnvironment, E2BOptions, stead_backend()


def test_no_lifetime():
    """A lifetime of nothing is refused."""
    with pytest.raises(ConfigError, match="timeout"):
        E2BEnvironment(timeout=0)
