"""The smaller namespaces of a client: prompts, completion, logging, sampling, elicitation and roots."""

from typing import Any

import pytest

from jackstay.errors import CapabilityError, UsageError
from jackstay.testing import on_fake_clock
from jackstay.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    GetPromptResult,
    Prompt,
    PromptReference,
    ResourceTemplateReference,
    Root,
    SamplingMessage,
    TextContent,
)
from scripted.peer import ERAS, HANDSHAKE, STATELESS, opened, peered


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_prompts_are_listed_and_filled_in(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["prompts/list"] = {"prompts": [{"name": "greet"}]}
        (prompt,) = await client.prompts.list()
        assert isinstance(prompt, Prompt)
        message = {"role": "user", "content": {"type": "text", "text": "hello"}}
        peer.on["prompts/get"] = {"messages": [message]}
        result = await client.prompts.get("greet", {"who": "you"})
        assert isinstance(result, GetPromptResult)
        assert peer.got("prompts/get")[0]["params"]["arguments"] == {"who": "you"}
        await client.prompts.get("greet")
        assert "arguments" not in peer.got("prompts/get")[1]["params"]


@on_fake_clock
async def test_prompts_require_the_capability() -> None:
    async with opened(server_capabilities={"tools": {}}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.prompts.get("greet")


@on_fake_clock
async def test_arguments_must_be_a_mapping() -> None:
    wrong: Any = ["Rome"]
    async with opened() as (client, peer):
        with pytest.raises(UsageError, match="arguments must be a mapping such as"):
            await client.prompts.get("greet", wrong)
        assert peer.got("prompts/get") == []


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_arguments_are_completed_with_and_without_context(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["completion/complete"] = {"completion": {"values": ["Bern", "Berlin"], "hasMore": False}}
        found = await client.completion.complete(PromptReference(name="greet"), "city", "Ber")
        assert list(found.values) == ["Bern", "Berlin"]
        params = peer.got("completion/complete")[0]["params"]
        assert params["ref"] == {"type": "ref/prompt", "name": "greet"}
        assert params["argument"] == {"name": "city", "value": "Ber"}
        assert "context" not in params
        reference = ResourceTemplateReference(uri="file:///{name}")
        await client.completion.complete(reference, "name", "", {"country": "ch"})
        assert peer.got("completion/complete")[1]["params"]["context"] == {"arguments": {"country": "ch"}}


@on_fake_clock
async def test_completion_requires_the_capability() -> None:
    async with opened(server_capabilities={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.completion.complete(PromptReference(name="greet"), "city", "")


@on_fake_clock
async def test_the_level_is_set_in_the_handshake_era() -> None:
    async with opened() as (client, peer):
        peer.on["logging/setLevel"] = {}
        await client.logging.set_level("warning")
        assert peer.got("logging/setLevel")[0]["params"] == {"level": "warning"}


@on_fake_clock
async def test_setting_the_level_of_a_stateless_server_explains_meta() -> None:
    async with opened(STATELESS) as (client, _):
        with pytest.raises(CapabilityError, match=r'"io\.modelcontextprotocol/logLevel": "debug"'):
            await client.logging.set_level("debug")


@on_fake_clock
async def test_the_level_is_not_sent_without_the_logging_capability() -> None:
    async with opened(server_capabilities={}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.logging.set_level("debug")


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


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
URL_MODE = {"message": "Go", "mode": "url", "url": "https://example.com/x", "elicitationId": "1"}


@on_fake_clock
async def test_both_modes_reach_the_handler() -> None:
    received: list[ElicitRequestParams] = []

    async def respond(params: ElicitRequestParams) -> ElicitResult:
        received.append(params)
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with peered() as (client, peer):
        assert client.elicitation.handle(respond) is respond
        await client.open()
        assert peer.got("initialize")[0]["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
        peer.request(1, "elicitation/create", FORM)
        peer.request(2, "elicitation/create", URL_MODE)
        assert (await peer.response_to(1))["result"] == {"action": "accept", "content": {"name": "Ada"}}
        assert (await peer.response_to(2))["result"] == {"action": "decline"}
        assert isinstance(received[0], ElicitRequestFormParams)


@on_fake_clock
async def test_roots_are_declared_returned_and_changes_are_notified() -> None:
    async with peered() as (client, peer):
        client.roots.set(["file:///a", Root(uri="file:///b", name="b")])
        await client.open()
        declared = peer.got("initialize")[0]["params"]["capabilities"]
        assert declared == {"roots": {"listChanged": True}}
        peer.request("q1", "roots/list")
        answer = await peer.response_to("q1")
        assert answer["result"]["roots"] == [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]
        client.roots.set([])
        await peer.expect("notifications/roots/list_changed")
        peer.request("q2", "roots/list")
        assert (await peer.response_to("q2"))["result"]["roots"] == []


@on_fake_clock
async def test_changes_of_undeclared_roots_are_not_sent() -> None:
    async with opened() as (client, peer):
        client.roots.set(["file:///a"])
        await client.ping()
        assert peer.got("notifications/roots/list_changed") == []


@on_fake_clock
async def test_invalid_roots_are_refused_by_set() -> None:
    values: list[Any] = ["file:///a", 5, [5], ["/a"], [None]]
    async with peered() as (client, _):
        for roots in values:
            with pytest.raises(UsageError, match="URI"):
                client.roots.set(roots)
        await client.open()
        assert client.state == "ready"


@on_fake_clock
async def test_root_changes_are_not_sent_to_stateless_or_disconnected_servers() -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        client.roots.set(["file:///b"])
        await client.ping()
        assert peer.got("notifications/roots/list_changed") == []
    client.roots.set(["file:///c"])
    async with peered(HANDSHAKE) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        peer.crash()
        await peer.until(lambda: client.state == "backoff")
        client.roots.set(["file:///b"])
        await client.stop()
        client.roots.set(["file:///c"])


@on_fake_clock
async def test_listing_roots_of_the_server_requires_the_capability() -> None:
    async with opened() as (client, _):
        with pytest.raises(CapabilityError, match=r"client\.roots\.set"):
            await client.roots.list()
    async with opened(server_capabilities={"roots": {}}) as (client, peer):
        peer.on["roots/list"] = {"roots": [{"uri": "file:///s"}]}
        assert [root.uri for root in await client.roots.list()] == ["file:///s"]
