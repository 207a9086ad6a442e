"""The names, keywords and modules of apcore-mcp 0.23.3 that this bridge has in another form.

`keywords` translates the keywords of `serve()`, `app` has `APCoreMCP`, and the other files have the classes that
programs import. docs/migration/apcore-mcp.md describes what differs.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        ".app": "APCoreMCP",
        ".keywords": "KEYWORDS CompatKeywords to_options",
    },
)
