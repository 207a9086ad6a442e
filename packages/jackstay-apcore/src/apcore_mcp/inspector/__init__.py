"""The Tool Inspector: a web page that lists the tools, shows their schemas, and calls them.

`routes()` returns it as an ASGI app for the paths below its prefix.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".calls": "Call Calls",
        ".changes": "Changes",
        ".paths": "Inspector routes",
    },
)
