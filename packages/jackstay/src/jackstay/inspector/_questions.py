"""Requests of a server to its client that a person answers on the page: elicitation and sampling."""

import asyncio
import secrets
from typing import Any, Literal

import msgspec

from jackstay.errors import JsonRpcError, UsageError
from jackstay.inspector._events import EventLog
from jackstay.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

# JSON-RPC has no code for it; the examples of the specification use this one (2025-11-25 client/sampling).
REJECTED_BY_USER = -1


class Answer(msgspec.Struct, frozen=True):
    """The answer of the page. `content` has the values of a form, `text` and `model` a message of a model."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    text: str = ""
    model: str = "a person"


class Questions:
    """The open questions by id. They are published when they arrive and when they are answered."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def __repr__(self) -> str:
        return f"<Questions {len(self._open)} open>"

    async def elicit(self, params: ElicitRequestParams) -> ElicitResult:
        """Wait for the values of a form, or for the consent to open a URL."""
        answer = await self._wait_for_answer("elicitation", params.raw)
        if answer.action == "accept" and answer.content is not None:
            return ElicitResult(action="accept", content=answer.content)
        return ElicitResult(action=answer.action)

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Wait for a message that a person writes in place of a model. Raises: JsonRpcError if they decline."""
        answer = await self._wait_for_answer("sampling", params.raw)
        if answer.action != "accept":
            raise JsonRpcError(REJECTED_BY_USER, "the user rejected the sampling request")
        content = TextContent(text=answer.text)
        return CreateMessageResult(role="assistant", content=content, model=answer.model, stop_reason="endTurn")

    def answer(self, id: object, answer: Answer) -> None:
        """Answer a question. Raises: UsageError if it is not open."""
        future = self._open.get(id) if isinstance(id, str) else None
        if future is None or future.done():
            raise UsageError("this question is not pending: it was answered, or its call has ended", path="question")
        future.set_result(answer)

    def cancel(self) -> None:
        """Cancel every open question, because the client is closed."""
        for future in self._open.values():
            if not future.done():
                future.set_result(Answer("cancel"))

    async def _wait_for_answer(self, kind: str, params: dict[str, Any]) -> Answer:
        id = secrets.token_urlsafe(12)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[id] = future
        self._events.publish("question", {"question": id, "kind": kind, "params": params})
        try:
            return await future
        finally:
            del self._open[id]
            self._events.publish("answered", {"question": id})
