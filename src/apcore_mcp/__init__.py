"""The apcore bridge: an apcore `Registry` as an MCP server, and as OpenAI tool definitions.

Not in this version: the package holds its name and its command, and nothing else. It will hold `adapters` (ids,
schemas, annotations, errors), `converters` (OpenAI), `server` (factory, router, listener, transport), the options and
the inspector. It stands on `mooring.server`; it never imports `procontext`, and nothing below knows it.
"""

__all__: list[str] = []
