"""Options, from code and from files."""

import pytest
from servers.sandbox_plugins import OptionTests

from stead.errors import ConfigError
from stead_daytona import DaytonaEnvironment
from stead_daytona.config import DaytonaOptions
from stead_daytona.plugin import stead_backend


class TestOptions(OptionTests):
    """The tests of all sandbox plugins."""

    environment, options, spec = DaytonaEnvironment, DaytonaOptions, stead_backend()


def test_no_lifetime():
    """A lifetime of nothing is refused."""
    with pytest.raises(ConfigError, match="auto_stop"):
        DaytonaEnvironment(auto_stop=0)
