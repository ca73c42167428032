"""The reference page is true to the code."""

from servers.sandbox_plugins import PageTests

from stead_e2b import E2BEnvironment
from stead_e2b.config import E2BOptions


class TestPage(PageTests):
    """The tests of all sandbox plugins."""

    environment, options = E2BEnvironment, E2BOptions
