"""The namespaces of a blocking client: `tools`, `resources` and the others, each a mirror of its async namesake.

There is nothing to know here that the async face does not know: each method brings its namesake to the loop and waits for
it. A test compares the signatures.

Above: `_client`. Below: `_portal`, `jackstay.client`.
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
from jackstay.sync._portal import Passage
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

    def __init__(self, passage: Passage, tools: AsyncTools) -> None:
        self._passage = passage
        self._tools = tools

    def list(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Every tool, all pages. Kept for as long as the server allows."""
        return self._passage.wait(self._tools.list, **options)

    def call(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[ToolOptions]
    ) -> CallToolResult:
        """Run a tool. A tool that failed has `is_error` on its result; `.text` is what it says.

        Ctrl-C while waiting cancels it on the wire.

        Raises: OutcomeUnknownError or TimeoutError where it may have run, others where it surely did not, JsonRpcError
        where the server refused it: `docs/errors.md` says what each allows you to assume.
        """
        return self._passage.wait(self._tools.call, name, arguments, **options)

    def session_mode(self) -> str:
        """`required` when any listed tool is stateful, else `optional`."""
        return self._tools.session_mode()


class Resources:
    """The resources of a server."""

    def __init__(self, passage: Passage, resources: AsyncResources) -> None:
        self._passage = passage
        self._resources = resources

    def list(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Every resource, all pages. Kept for as long as the server allows."""
        return self._passage.wait(self._resources.list, **options)

    def templates(self, **options: Unpack[CallOptions]) -> "builtins.list[ResourceTemplate]":
        """Every template for the addresses of resources, all pages."""
        return self._passage.wait(self._resources.templates, **options)

    def read(self, uri: str, **options: Unpack[CallOptions]) -> ReadResourceResult:
        """What is in it."""
        return self._passage.wait(self._resources.read, uri, **options)

    def subscribe(
        self,
        uri: str,
        handler: Callable[[str], object | Awaitable[object]] | None = None,
        *,
        on_end: Callable[[McpError | None], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Hear of every change of it: `handler(uri)` is called, on the loop's thread, and `on_notification` hears of it too.

        It lasts until `unsubscribe()` and is opened again after every reconnect. Where the server ends it, `on_end(error)`
        is called (None: it gave no reason); it is then opened again with the next connection. Subscribing twice
        changes the handler.

        Raises: CapabilityError where the server has no subscriptions, and as every request does.
        """
        self._passage.wait(self._resources.subscribe, uri, handler, on_end=on_end, **options)

    def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Hear no more of it."""
        self._passage.wait(self._resources.unsubscribe, uri, **options)


class Prompts:
    """The prompts of a server."""

    def __init__(self, passage: Passage, prompts: AsyncPrompts) -> None:
        self._passage = passage
        self._prompts = prompts

    def list(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Every prompt, all pages. Kept for as long as the server allows."""
        return self._passage.wait(self._prompts.list, **options)

    def get(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[CallOptions]
    ) -> GetPromptResult:
        """One prompt, filled in."""
        return self._passage.wait(self._prompts.get, name, arguments, **options)


class Completions:
    """Completion of arguments, by the server."""

    def __init__(self, passage: Passage, completion: AsyncCompletions) -> None:
        self._passage = passage
        self._completion = completion

    def complete(
        self,
        reference: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Completion:
        """What may follow `value` in this argument; `context` are the arguments already known."""
        return self._passage.wait(self._completion.complete, reference, argument, value, context, **options)


class Logging:
    """The level of the server's log messages, which arrive as notifications."""

    def __init__(self, passage: Passage, logging: AsyncLogging) -> None:
        self._passage = passage
        self._logging = logging

    def set_level(self, level: LoggingLevel, **options: Unpack[CallOptions]) -> None:
        """Hear of this level and above. In the stateless era a level belongs to each request: pass it in `meta`.

        Raises: CapabilityError there, and where the server does not log.
        """
        self._passage.wait(self._logging.set_level, level, **options)


class Sampling:
    """Sampling, from the client's side: register a handler before the client is opened."""

    def __init__(self, passage: Passage, sampling: AsyncSampling) -> None:
        self._passage = passage
        self._sampling = sampling

    def handle(self, handler: SamplingHandler) -> SamplingHandler:
        """Answer the server's requests with `handler(params)`, on the loop's thread; usable as a decorator."""
        return self._sampling.handle(handler)

    def create_message(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Ask the *server* to sample, which MCP does not have: for servers that declare it all the same.

        Raises: CapabilityError where the server does not declare `sampling`.
        """
        return self._passage.wait(self._sampling.create_message, params)


class Elicitation:
    """Elicitation: register a handler before the client is opened.

    For a URL, show it whole, never open it unasked and never fetch it: that is the person's decision (2025-11-25
    client/elicitation).
    """

    def __init__(self, elicitation: AsyncElicitation) -> None:
        self._elicitation = elicitation

    def handle(self, handler: ElicitationHandler) -> ElicitationHandler:
        """Answer the server's questions with `handler(params)`, on the loop's thread; usable as a decorator."""
        return self._elicitation.handle(handler)


class Roots:
    """The roots we declare. Set them before the client is opened, change them at any time."""

    def __init__(self, passage: Passage, roots: AsyncRoots) -> None:
        self._passage = passage
        self._roots = roots

    def set(self, roots: Iterable[Root | str]) -> None:
        """These, from now on: `file://` addresses. A server of the handshake era is told that they changed."""
        self._passage.portal.ask(self._roots.set, roots)

    def list(self) -> list[Root]:
        """Ask the *server* for roots, which MCP does not have: for servers that declare it all the same.

        Raises: CapabilityError where the server does not declare `roots`.
        """
        return self._passage.wait(self._roots.list)
