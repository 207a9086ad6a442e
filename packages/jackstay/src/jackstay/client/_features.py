"""The smaller namespaces of a client: prompts, completion, logging, sampling, elicitation and roots.

Each is one attribute of `Client`, such as `client.prompts`; `_tools` and `_resources` have the larger ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from jackstay._signatures import shows
from jackstay.client._request_handlers import ElicitationHandler, SamplingHandler, check_callable
from jackstay.client._requests import CallOptions, Requests, check_mapping
from jackstay.errors import CapabilityError, ClosedError, ShutdownError, StateError, UsageError
from jackstay.protocol import Era
from jackstay.types import (
    META_LOG_LEVEL,
    CompleteResult,
    Completion,
    CreateMessageRequestParams,
    CreateMessageResult,
    EmptyResult,
    GetPromptResult,
    ListPromptsResult,
    ListRootsResult,
    LoggingLevel,
    Prompt,
    PromptReference,
    ResourceTemplateReference,
    Root,
)


class _Feature:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def _require_declared(self, capability: str, advice: str) -> None:
        """Raises: CapabilityError unless the server has declared this capability, which MCP defines for clients."""
        if self._requests.connection.core.server is None or not self._requests.has_capability(capability):
            raise CapabilityError(capability, f"the server does not provide {capability}; {advice}")


class Prompts(_Feature):
    """The prompts of a server."""

    @shows("jackstay.client:CallOptions")
    async def list(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return every prompt of all pages, cached for as long as the server allows."""
        return await self._requests.fetch_list("prompts/list", ListPromptsResult, options)

    @shows("jackstay.client:CallOptions")
    async def get(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Return one prompt with its arguments filled in.

        Raises: UsageError if `arguments` is not a mapping; as every request (`docs/errors.md`).
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            check_mapping(arguments, "arguments")
            params["arguments"] = dict(arguments)
        return await self._requests.request("prompts/get", params, GetPromptResult, options, subject=name)


class Completions(_Feature):
    """Argument completion by the server."""

    @shows("jackstay.client:CallOptions")
    async def complete(
        self,
        reference: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Completion:
        """Return completions for `value` in this argument; `context` has the arguments that are already known.

        Raises: as every request (`docs/errors.md`).
        """
        params: dict[str, Any] = {"ref": reference, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self._requests.request("completion/complete", params, CompleteResult, options)
        return result.completion


class Logging(_Feature):
    """The level of the server's log messages, which arrive as notifications."""

    @shows("jackstay.client:CallOptions")
    async def set_level(self, level: LoggingLevel, **options: Unpack[CallOptions]) -> None:
        """Receive log messages of this level and above (`logging/setLevel`).

        A stateless server has no such request; pass the level in `meta` of each call.

        Raises: CapabilityError for a stateless server and for one without the `logging` capability.
        """
        server = self._requests.connection.core.server
        if server is not None and server.era is Era.STATELESS:
            meta = f'meta={{"{META_LOG_LEVEL}": "{level}"}}'
            message = f"a stateless server has no log level per connection; pass {meta} with each call"
            raise CapabilityError("logging", message)
        await self._requests.request("logging/setLevel", {"level": level}, EmptyResult, options)


class Sampling(_Feature):
    """Sampling: register a handler before the client is opened."""

    def handle(self, handler: SamplingHandler) -> SamplingHandler:
        """Call `handler(params)`, sync or async, for each `sampling/createMessage`; usable as a decorator.

        Raises: UsageError if `handler` is not callable.
        """
        check_callable(handler, "sampling.handle")
        self._requests.request_handlers.sampling = handler
        return handler

    async def create_message(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Request sampling from the *server*, which MCP does not define; for servers that declare it nevertheless.

        Raises: CapabilityError if the server does not declare `sampling`.
        """
        self._require_declared("sampling", "to handle its requests use client.sampling.handle()")
        return await self._requests.request("sampling/createMessage", params.raw, CreateMessageResult, {})


class Elicitation(_Feature):
    """Elicitation: register a handler before the client is opened.

    In URL mode, show the full URL; never open it without consent and never fetch it (2025-11-25 client/elicitation).
    """

    def handle(self, handler: ElicitationHandler) -> ElicitationHandler:
        """Call `handler(params)`, sync or async, for each `elicitation/create`; usable as a decorator.

        Raises: UsageError if `handler` is not callable.
        """
        check_callable(handler, "elicitation.handle")
        self._requests.request_handlers.elicitation = handler
        return handler


class Roots(_Feature):
    """The roots of the client. Set them before the client is opened; they can be changed at any time."""

    def set(self, roots: Iterable[Root | str]) -> None:
        """Replace the roots, which are `file://` URIs. A handshake-era server is notified of the change.

        Raises: UsageError if `roots` is not an iterable of URIs.
        """
        if isinstance(roots, str) or not isinstance(roots, Iterable):
            raise UsageError(f"roots must be a list of URIs such as ['file:///project'], got {roots!r}", path="roots")
        self._requests.request_handlers.roots = [_root(root) for root in roots]
        try:
            connection = self._requests.connection
            is_declared = "roots" in (connection.settings.capabilities or {})
            if is_declared and connection.server().era is Era.HANDSHAKE:
                connection.notify("notifications/roots/list_changed", b"{}")
        except (StateError, ShutdownError, ClosedError):
            pass  # not connected: the server requests the roots when it needs them

    async def list(self) -> list[Root]:
        """Request roots from the *server*, which MCP does not define; for servers that declare `roots` nevertheless.

        Raises: CapabilityError if the server does not declare `roots`.
        """
        self._require_declared("roots", "to declare roots of this client use client.roots.set()")
        return list((await self._requests.request("roots/list", {}, ListRootsResult, {})).roots)


def _root(root: object) -> Root:
    if isinstance(root, Root):
        return root
    if not isinstance(root, str) or ":" not in root:
        raise UsageError(f"a root must be a URI such as 'file:///project', got {root!r}", path="roots")
    return Root(uri=root)
