"""The capabilities that clients and servers declare.

An empty object declares a capability, so those without members are plain JSON objects here; the others are Structs.
They are sent once in the handshake, and with every request since 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Mapping

from jackstay.types._body import Body, JsonObject, Maybe


class RootsCapability(Body, frozen=True):
    """The client has roots to list. `list_changed` until 2025-11-25."""

    list_changed: Maybe[bool] = None


class SamplingCapability(Body, frozen=True, kw_only=True):
    """The client supports sampling. Both members since 2025-11-25."""

    context: Maybe[JsonObject] = None
    tools: Maybe[JsonObject] = None


class ElicitationCapability(Body, frozen=True, kw_only=True):
    """The client supports elicitation; without members, by forms only (both members since 2025-11-25)."""

    form: Maybe[JsonObject] = None
    url: Maybe[JsonObject] = None


class TasksSamplingCapability(Body, frozen=True):
    """Which sampling requests may be run as tasks (2025-11-25 only)."""

    create_message: Maybe[JsonObject] = None


class TasksElicitationCapability(Body, frozen=True):
    """Which elicitation requests may be run as tasks (2025-11-25 only)."""

    create: Maybe[JsonObject] = None


class ClientTasksRequestsCapability(Body, frozen=True, kw_only=True):
    """Which requests to the client may be run as tasks (2025-11-25 only)."""

    sampling: Maybe[TasksSamplingCapability] = None
    elicitation: Maybe[TasksElicitationCapability] = None


class ClientTasksCapability(Body, frozen=True, kw_only=True):
    """The client supports tasks (2025-11-25 only)."""

    list: Maybe[JsonObject] = None
    cancel: Maybe[JsonObject] = None
    requests: Maybe[ClientTasksRequestsCapability] = None


class ClientCapabilities(Body, frozen=True, kw_only=True):
    """The capabilities of a client."""

    experimental: Maybe[Mapping[str, JsonObject]] = None
    roots: Maybe[RootsCapability] = None
    sampling: Maybe[SamplingCapability] = None
    # Since 2025-06-18.
    elicitation: Maybe[ElicitationCapability] = None
    # 2025-11-25 only.
    tasks: Maybe[ClientTasksCapability] = None
    # Since 2026-07-28: settings by the extension's identifier.
    extensions: Maybe[Mapping[str, JsonObject]] = None


class PromptsCapability(Body, frozen=True):
    """The server has prompts."""

    list_changed: Maybe[bool] = None


class ResourcesCapability(Body, frozen=True, kw_only=True):
    """The server has resources."""

    subscribe: Maybe[bool] = None
    list_changed: Maybe[bool] = None


class ToolsCapability(Body, frozen=True):
    """The server has tools."""

    list_changed: Maybe[bool] = None


class TasksToolsCapability(Body, frozen=True):
    """Which tool requests may be run as tasks (2025-11-25 only)."""

    call: Maybe[JsonObject] = None


class ServerTasksRequestsCapability(Body, frozen=True):
    """Which requests to the server may be run as tasks (2025-11-25 only)."""

    tools: Maybe[TasksToolsCapability] = None


class ServerTasksCapability(Body, frozen=True, kw_only=True):
    """The server supports tasks (2025-11-25 only)."""

    list: Maybe[JsonObject] = None
    cancel: Maybe[JsonObject] = None
    requests: Maybe[ServerTasksRequestsCapability] = None


class ServerCapabilities(Body, frozen=True, kw_only=True):
    """The capabilities of a server."""

    experimental: Maybe[Mapping[str, JsonObject]] = None
    logging: Maybe[JsonObject] = None
    prompts: Maybe[PromptsCapability] = None
    resources: Maybe[ResourcesCapability] = None
    tools: Maybe[ToolsCapability] = None
    # Since 2025-03-26.
    completions: Maybe[JsonObject] = None
    # 2025-11-25 only.
    tasks: Maybe[ServerTasksCapability] = None
    # Since 2026-07-28: settings by the extension's identifier.
    extensions: Maybe[Mapping[str, JsonObject]] = None
