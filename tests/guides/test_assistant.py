"""A model that uses the tools of a server, with scripted responses in the formats of each API."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guides.loading import FAULTY, SOURCE, load
from jackstay import connect, stdio
from jackstay.models import Toolbox
from peers.in_memory_server import with_tools

assistant = load("assistant")

PAY = ("pay", {"order": "A7", "cents": 500}, '{"order": "A7", "cents": 500}')
CHECK = ("was_it_paid", {"order": "A7"}, '{"order": "A7"}')


def thing(**members: Any) -> SimpleNamespace:
    return SimpleNamespace(**members)


def anthropic_answer(*calls: Any) -> Any:
    blocks: list[Any] = [thing(type="text", text="Paid." if not calls else "Let me see.")]
    blocks += [
        thing(type="tool_use", id=f"toolu_{number}", name=name, input=input)
        for number, (name, input, _) in enumerate(calls)
    ]
    return thing(role="assistant", content=blocks, stop_reason="tool_use" if calls else "end_turn")


def chat_answer(*calls: Any) -> Any:
    called = [
        thing(id=f"call_{number}", type="function", function=thing(name=name, arguments=arguments))
        for number, (name, _, arguments) in enumerate(calls)
    ]
    message = thing(role="assistant", content=None if calls else "Paid.", tool_calls=called or None)
    return thing(choices=[thing(finish_reason="tool_calls" if calls else "stop", message=message)])


def response(*calls: Any) -> Any:
    called = [
        thing(type="function_call", call_id=f"call_{number}", name=name, arguments=arguments, status="completed")
        for number, (name, _, arguments) in enumerate(calls)
    ]
    return thing(output=[thing(type="reasoning", summary=[]), *called], output_text="" if calls else "Paid.")


# API -> (loop, response of the model, member of the request with the messages)
APIS = {
    "anthropic": (assistant.run_anthropic, anthropic_answer, "messages"),
    "openai": (assistant.run_openai, chat_answer, "messages"),
    "openai-responses": (assistant.run_openai_responses, response, "input"),
}


class Model:
    """A model that makes these calls, one list per turn, and keeps the messages it received."""

    def __init__(self, shape: str, *turns: tuple[Any, ...]) -> None:
        _, self._answer, self._where = APIS[shape]
        self._turns = iter([*turns, ()])
        self.received: list[Any] = []
        self.tools: list[Any] = []

    async def create(self, **request: Any) -> Any:
        self.received = list(request[self._where])
        self.tools = request["tools"]
        return self._answer(*next(self._turns))


async def converse(shape: str, model: Model, ledger: Path) -> str:
    target = stdio(sys.executable, FAULTY, ledger, "after", env=SOURCE)
    async with connect(target, wait_for_ready=True, backoff_min=0.01) as client:
        text: str = await APIS[shape][0](model.create, Toolbox(client, shape), "Pay 500 cents for A7.")
    return text


@pytest.mark.parametrize("shape", APIS)
async def test_a_model_gets_an_unknown_outcome_and_checks(shape: str, tmp_path: Path) -> None:
    """The shop exits after the payment was written: the call is neither reported as failed nor repeated."""
    model = Model(shape, (CHECK,), (PAY,), (CHECK,))
    assert await converse(shape, model, tmp_path / "ledger") == "Paid."
    assert (tmp_path / "ledger").read_text() == "A7 500\n"
    assert len(model.tools) == 2
    received = str(model.received)
    assert "'no'" in received
    assert "It is unknown whether this call ran" in received
    assert "'yes'" in received


@pytest.mark.parametrize("shape", APIS)
async def test_the_number_of_turns_is_limited(shape: str) -> None:
    model = Model(shape, *[(CHECK,)] * 30)

    async with connect(with_tools("shop", "was_it_paid")) as client:
        with pytest.raises(TimeoutError, match="after 20 turns"):
            await APIS[shape][0](model.create, Toolbox(client, shape), "Was it paid?")
