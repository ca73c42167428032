"""Framework-neutral tools over any environment: name, description, JSON schema, and an async call that returns a dict."""

from stead.tools.assembly import toolset
from stead.tools.tool import Tool, ToolResult
from stead.tools.toolkit import OffloadLocator

__all__ = ["OffloadLocator", "Tool", "ToolResult", "toolset"]
