"""`client.sampling`: the handler for requests of the server, and sampling by a server that declares it."""

import pytest

from jackstay.errors import CapabilityError
from jackstay.testing import on_fake_clock
from jackstay.types import CreateMessageRequestParams, CreateMessageResult, SamplingMessage, TextContent
from scripted.peer import opened, peered

PARAMS = {"messages": [{"role": "user", "content": {"type": "text", "text": "2+2"}}], "maxTokens": 9}


def four(params: CreateMessageRequestParams) -> CreateMessageResult:
    assert params.max_tokens == 9
    return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")


@on_fake_clock
async def test_a_handler_is_declared_and_answers() -> None:
    async with peered() as (client, peer):
        assert client.sampling.handle(four) is four
        await client.open()
        assert peer.got("initialize")[0]["params"]["capabilities"] == {"sampling": {}}
        peer.request(1, "sampling/createMessage", PARAMS)
        assert (await peer.response_to(1))["result"]["content"] == {"type": "text", "text": "4"}


@on_fake_clock
async def test_sampling_by_the_server_requires_the_capability() -> None:
    message = SamplingMessage(role="user", content=TextContent(text="2+2"))
    params = CreateMessageRequestParams(messages=[message], max_tokens=9)
    async with opened() as (client, _):
        with pytest.raises(CapabilityError, match=r"client\.sampling\.handle"):
            await client.sampling.create_message(params)
    async with opened(server_capabilities={"sampling": {}}) as (client, peer):
        peer.on["sampling/createMessage"] = {
            "role": "assistant",
            "content": {"type": "text", "text": "4"},
            "model": "m",
        }
        assert (await client.sampling.create_message(params)).text == "4"
        assert peer.got("sampling/createMessage")[0]["params"] == PARAMS
