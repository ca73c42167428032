"""The reference page is true to the code."""

from servers.sandbox_plugins import PageTests

from stead_daytona import DaytonaEnvironment
from stead_daytona.config import DaytonaOptions


class TestPage(PageTests):
    """The tests of all sandbox plugins."""

    environment, options = DaytonaEnvironment, DaytonaOptions
