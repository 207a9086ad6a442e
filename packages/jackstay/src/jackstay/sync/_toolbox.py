"""`Toolbox`, blocking: the face of `jackstay.models.Toolbox` for code without an event loop.

Above: users. Below: `_client`, `_fleet`, `jackstay.models`.
"""

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

    `shape` is `openai` (chat completions), `openai-responses` or `anthropic`. `strict` asks the API to hold the model to the
    schemas. `only(tool)` says which tools the model may have; by default all.

    Raises: UsageError for a shape that is none, or a source that is neither.
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
                f"this toolbox needs a Client or a Fleet of jackstay.sync, not "
                f"{type(source).__module__}.{type(source).__name__}; "
                "for those of jackstay.client there is jackstay.models.Toolbox",
                path="source",
            )
        held = source._client if isinstance(source, Client) else source._fleet
        self._passage = source._passage
        self._toolbox = AsyncToolbox(held, shape, strict=strict, only=only)
        self.shape = shape
        self.strict = strict

    def __repr__(self) -> str:
        return f"<sync.{repr(self._toolbox)[1:]}"

    @property
    def names(self) -> Mapping[str, str]:
        """Each name before the model, and the tool that it stands for; as `definitions()` last found them."""
        return self._toolbox.names

    def definitions(self, **options: Unpack[CallOptions]) -> list[Definition]:
        """The tools, for the `tools` of a request. Ask again before each request: servers change what they offer.

        A tool whose schema cannot be written is left out, with a warning.

        Raises: as the listing does.
        """
        return self._passage.wait(self._toolbox.definitions, **options)

    def calls(self, answer: object) -> list[ModelCall]:
        """The calls in a model's answer, in order: its JSON as dicts, or an object of the API's library.

        Raises: UsageError for what is not an answer of this API.
        """
        return self._toolbox.calls(answer)

    def run(self, call: ModelCall, **options: Unpack[ToolOptions]) -> Outcome:
        """Run one call; `options` are those of `client.tools.call()`. What fails is in the outcome, and logged.

        Raises: UsageError for an option that cannot be used; as `definitions()`, where that was not called before; ClosedError
        after the end.
        """
        return self._passage.wait(self._toolbox.run, call, **options)

    def messages(self, outcomes: Iterable[Outcome]) -> list[Message]:
        """What to append to the conversation, behind the answer that asked for the calls."""
        return self._toolbox.messages(outcomes)

    def answer(self, answer: object, **options: Unpack[ToolOptions]) -> list[Message]:
        """Run all calls in a model's answer at once, and return what to append behind it; empty if there are none.

        Every call is answered, also one that failed, that names no tool, or whose arguments cannot be read.

        Raises: as `calls()` and `run()`; and what a handler of the client's raised, when all other calls have been given up.
        """
        return self._passage.wait(self._toolbox.answer, answer, **options)
