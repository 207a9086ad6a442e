"""The blocking `Toolbox`: wraps `jackstay.models.Toolbox`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Unpack

from jackstay.client import CallOptions, ToolOptions
from jackstay.errors import UsageError
from jackstay.models import Definition, Message, ModelCall, Outcome
from jackstay.models import Toolbox as AsyncToolbox
from jackstay.sync._client import Client
from jackstay.sync._fleet import Fleet
from jackstay.types import Tool


class Toolbox:
    """The tools of a client or a fleet for one model API. Safe to share between threads and conversations.

    `shape` is `openai` (chat completions), `openai-responses` or `anthropic`. `strict` enables the strict mode of the
    API, which enforces the schemas. `only(tool)` selects the tools that the model may use; default: all.

    Raises: UsageError for an unknown shape, a wrong source, or an `only` that is not a plain function.
    """

    def __init__(
        self,
        source: Client | Fleet,
        shape: str,
        *,
        strict: bool = False,
        only: Callable[[Tool], object] | None = None,
    ) -> None:
        if not isinstance(source, Client | Fleet):
            raise UsageError(
                "Toolbox() expected a Client or a Fleet of jackstay.sync, got "
                f"{type(source).__module__}.{type(source).__name__}; for jackstay.client use jackstay.models.Toolbox",
                path="source",
            )
        async_source = source._client if isinstance(source, Client) else source._fleet
        self._client_portal = source._client_portal
        self._toolbox = AsyncToolbox(async_source, shape, strict=strict, only=only)
        self.shape = shape
        self.strict = strict

    def __repr__(self) -> str:
        return f"<sync.{repr(self._toolbox)[1:]}"

    @property
    def names(self) -> Mapping[str, str]:
        """By name for the model: the name of the tool, as of the last `definitions()`."""
        return self._toolbox.names

    def definitions(self, **options: Unpack[CallOptions]) -> list[Definition]:
        """Return the definitions for `tools` of a model request. Call it before each request: lists can change.

        A tool whose schema cannot be converted is omitted with a warning, as are tools whose names collide.

        Raises: as listing the tools.
        """
        return self._client_portal.wait(self._toolbox.definitions, **options)

    def calls(self, response: object) -> list[ModelCall]:
        """Return the tool calls in the response of a model: JSON as dicts, or an object of the API's library.

        Raises: UsageError if `response` is not a response of this API.
        """
        return self._toolbox.calls(response)

    def run(self, call: ModelCall, **options: Unpack[ToolOptions]) -> Outcome:
        """Run one call with the options of `client.tools.call()`. A failure is logged and stored in the outcome.

        Raises: UsageError for a bad option; as `definitions()`, if that was not called before; ClosedError after
        `stop()`.
        """
        return self._client_portal.wait(self._toolbox.run, call, **options)

    def messages(self, outcomes: Iterable[Outcome]) -> list[Message]:
        """Return the messages to append to the conversation after the response with the calls."""
        return self._toolbox.messages(outcomes)

    def answer(self, response: object, **options: Unpack[ToolOptions]) -> list[Message]:
        """Run all calls of a response concurrently and return the messages to append after it; empty without calls.

        Every call gets a result message, also a failed one, one of an unknown tool or one with invalid arguments.

        Raises: as `calls()` and `run()`; the exception of a handler of the client, after the other calls are cancelled.
        """
        return self._client_portal.wait(self._toolbox.answer, response, **options)
