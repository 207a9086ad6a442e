"""The namespaces of the blocking client, such as `tools` and `resources`.

Each method runs the method of the same name of the async class on the event loop. A test compares the signatures.
"""

import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Unpack

from jackstay.client import (
    CallOptions,
    ElicitationHandler,
    SamplingHandler,
    ToolOptions,
)
from jackstay.client import Completions as AsyncCompletions
from jackstay.client import Elicitation as AsyncElicitation
from jackstay.client import Logging as AsyncLogging
from jackstay.client import Prompts as AsyncPrompts
from jackstay.client import Resources as AsyncResources
from jackstay.client import Roots as AsyncRoots
from jackstay.client import Sampling as AsyncSampling
from jackstay.client import Tools as AsyncTools
from jackstay.errors import Json, McpError
from jackstay.sync._portal import ClientPortal
from jackstay.types import (
    CallToolResult,
    Completion,
    CreateMessageRequestParams,
    CreateMessageResult,
    GetPromptResult,
    LoggingLevel,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    Root,
    Tool,
)


class Tools:
    """The tools of a server."""

    def __init__(self, client_portal: ClientPortal, tools: AsyncTools) -> None:
        self._client_portal = client_portal
        self._tools = tools

    def list(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return every tool of all pages, cached for as long as the server allows."""
        return self._client_portal.wait(self._tools.list, **options)

    def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Call a tool. If the tool failed, its result has `is_error`; `.text` is the text of the result.

        Ctrl-C cancels the call at the server.

        Raises: OutcomeUnknownError or TimeoutError if the call may have run, JsonRpcError if the server returned an
        error, others if the call did not run. `docs/errors.md` lists what each one guarantees.
        """
        return self._client_portal.wait(self._tools.call, name, arguments, **options)

    def session_mode(self) -> str:
        """Return `required` if any listed tool is stateful, else `optional`."""
        return self._tools.session_mode()


class Resources:
    """The resources of a server."""

    def __init__(self, client_portal: ClientPortal, resources: AsyncResources) -> None:
        self._client_portal = client_portal
        self._resources = resources

    def list(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Return every resource of all pages, cached for as long as the server allows."""
        return self._client_portal.wait(self._resources.list, **options)

    def templates(self, **options: Unpack[CallOptions]) -> "builtins.list[ResourceTemplate]":
        """Return every resource template of all pages, cached for as long as the server allows."""
        return self._client_portal.wait(self._resources.templates, **options)

    def read(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """Return the contents of the resource at `uri`."""
        return self._client_portal.wait(self._resources.read, uri, **options)

    def subscribe(
        self,
        uri: str,
        handler: Callable[[str], object | Awaitable[object]] | None = None,
        *,
        on_end: Callable[[McpError | None], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Call `handler(uri)` on the event loop thread for every update; `on_notification` handlers run as well.

        The subscription lasts until `unsubscribe()` and is restored after every reconnect. If the server ends it,
        `on_end(error)` is called (None if the server gave no reason); the next connection restores it. Subscribing
        again replaces the handler.

        Raises: CapabilityError if the server has no subscriptions; as every request (`docs/errors.md`).
        """
        self._client_portal.wait(self._resources.subscribe, uri, handler, on_end=on_end, **options)

    def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """End the subscription."""
        self._client_portal.wait(self._resources.unsubscribe, uri, **options)


class Prompts:
    """The prompts of a server."""

    def __init__(self, client_portal: ClientPortal, prompts: AsyncPrompts) -> None:
        self._client_portal = client_portal
        self._prompts = prompts

    def list(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return every prompt of all pages, cached for as long as the server allows."""
        return self._client_portal.wait(self._prompts.list, **options)

    def get(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Return one prompt with its arguments filled in."""
        return self._client_portal.wait(self._prompts.get, name, arguments, **options)


class Completions:
    """Argument completion by the server."""

    def __init__(self, client_portal: ClientPortal, completion: AsyncCompletions) -> None:
        self._client_portal = client_portal
        self._completion = completion

    def complete(
        self,
        reference: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Completion:
        """Return completions for `value` in this argument; `context` has the arguments that are already known."""
        return self._client_portal.wait(self._completion.complete, reference, argument, value, context, **options)


class Logging:
    """The level of the server's log messages, which arrive as notifications."""

    def __init__(self, client_portal: ClientPortal, logging: AsyncLogging) -> None:
        self._client_portal = client_portal
        self._logging = logging

    def set_level(self, level: LoggingLevel, **options: Unpack[CallOptions]) -> None:
        """Receive log messages of this level and above (`logging/setLevel`).

        A stateless server has no such request; pass the level in `meta` of each call.

        Raises: CapabilityError for a stateless server and for one without the `logging` capability.
        """
        self._client_portal.wait(self._logging.set_level, level, **options)


class Sampling:
    """Sampling: register a handler before the client is opened."""

    def __init__(self, client_portal: ClientPortal, sampling: AsyncSampling) -> None:
        self._client_portal = client_portal
        self._sampling = sampling

    def handle(self, handler: SamplingHandler) -> SamplingHandler:
        """Call `handler(params)` on the event loop thread for each `sampling/createMessage`; usable as a decorator."""
        return self._sampling.handle(handler)

    def create_message(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Request sampling from the *server*, which MCP does not define; for servers that declare it nevertheless.

        Raises: CapabilityError if the server does not declare `sampling`.
        """
        return self._client_portal.wait(self._sampling.create_message, params)


class Elicitation:
    """Elicitation: register a handler before the client is opened.

    In URL mode, show the full URL; never open it without consent and never fetch it (2025-11-25 client/elicitation).
    """

    def __init__(self, elicitation: AsyncElicitation) -> None:
        self._elicitation = elicitation

    def handle(self, handler: ElicitationHandler) -> ElicitationHandler:
        """Call `handler(params)` on the event loop thread for each `elicitation/create`; usable as a decorator."""
        return self._elicitation.handle(handler)


class Roots:
    """The roots of the client. Set them before the client is opened; they can be changed at any time."""

    def __init__(self, client_portal: ClientPortal, roots: AsyncRoots) -> None:
        self._client_portal = client_portal
        self._roots = roots

    def set(self, roots: Iterable[Root | str]) -> None:
        """Replace the roots, which are `file://` URIs. A handshake-era server is notified of the change."""
        self._client_portal.portal.run_on_loop(self._roots.set, roots)

    def list(self) -> list[Root]:
        """Request roots from the *server*, which MCP does not define; for servers that declare `roots` nevertheless.

        Raises: CapabilityError if the server does not declare `roots`.
        """
        return self._client_portal.wait(self._roots.list)
