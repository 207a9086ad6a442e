"""The blocking API equals the async one: the same names, parameters and types; and each call reaches the server."""

import inspect
import json
from typing import Any, get_type_hints

import pytest

import jackstay.client as async_api
import jackstay.sync as sync_api
from jackstay.errors import CapabilityError, JsonRpcError
from jackstay.protocol.client import ClientKeywords
from jackstay.sync import connect
from jackstay.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    PromptReference,
    Root,
    SamplingMessage,
    TextContent,
)
from peers.in_memory_server import InMemoryServer

PAIRS = (
    "Tools",
    "Resources",
    "Prompts",
    "Sampling",
    "Roots",
    "Elicitation",
    "Logging",
    "Completions",
    "Client",
    "Fleet",
)

# `async with` is `with`; everything else has the same name.
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
# Called by `connect()` and by the client only.
UNCOMPARED = {"__init__"}


def public(cls: type) -> dict[str, Any]:
    """Return the public methods and properties by name."""
    return {
        name: member
        for name, member in vars(cls).items()
        if (not name.startswith("_") or name in RENAMED or name in RENAMED.values() or name in DUNDERS)
        and (callable(member) or isinstance(member, property | classmethod))
    }


DUNDERS = {"__getitem__", "__iter__", "__len__", "__contains__", "__repr__"}


def signature_of(member: Any) -> tuple[Any, ...]:
    """Return parameters and types of a method or property, async or not; classes of the two packages by name only."""
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    # `connect` imports these names only when it is called.
    later = {"Client": async_api.Client, "ClientKeywords": ClientKeywords}
    known = later if function is async_api.connect else None
    hints = {name: _named(hint) for name, hint in get_type_hints(function, localns=known).items()}
    parameters = [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return type(member).__name__, parameters, hints


def _named(hint: Any) -> str:
    return (
        str(hint)
        .replace("jackstay.sync._client.", "")
        .replace("jackstay.client._client.", "")
        .replace("jackstay.client._call.", "")
        .replace("jackstay.sync._fleet.", "")
        .replace("jackstay.client._fleet.", "")
    )


def test_the_two_apis_have_the_same_signatures() -> None:
    for name in PAIRS:
        async_members, sync_members = public(getattr(async_api, name)), public(getattr(sync_api, name))
        expected = {RENAMED.get(method, method): member for method, member in async_members.items()}
        assert set(sync_members) - {"settings", "cache"} == set(expected), f"the members of {name} differ"
        for method, member in expected.items():
            assert signature_of(sync_members[method]) == signature_of(member), f"{name}.{method}"


def test_connect_has_the_same_signature() -> None:
    assert signature_of(sync_api.connect) == signature_of(async_api.connect)


def test_no_namespace_is_missing() -> None:
    attributes = {"cache", "settings"}
    target = InMemoryServer("x", lambda method, params: None)
    async_names = {name for name in vars(async_api.connect(target)) if not name.startswith("_")}
    client = sync_api.connect(target)
    sync_names = {name for name in vars(client) if not name.startswith("_")} | attributes
    # `wire` is for proxies, which cannot forward messages while they block.
    assert async_names - {"wire"} == sync_names
    assert client.cache is client._client.cache
    assert client.settings.name == "x"


# --- each call arrives ------------------------------------------------------------------------------------------------

EVERYTHING = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "logging": {},
    "completions": {},
    "sampling": {},
    "roots": {},
}
RESULTS: dict[str, Any] = {
    "tools/list": {"tools": [{"name": "t", "inputSchema": {}, "mode": "stateless"}]},
    "tools/call": {"content": [{"type": "text", "text": "called"}]},
    "resources/list": {"resources": [{"uri": "a://b", "name": "n"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{x}", "name": "n"}]},
    "resources/read": {"contents": [{"uri": "a://b", "text": "inside"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/list": {"prompts": [{"name": "p"}]},
    "prompts/get": {"messages": []},
    "completion/complete": {"completion": {"values": ["one"]}},
    "logging/setLevel": {},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "sampled"},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///a"}]},
}


def server() -> InMemoryServer:
    return InMemoryServer("all", lambda method, params: RESULTS[method], capabilities=EVERYTHING)


def test_every_call_reaches_the_server_and_returns_its_result() -> None:
    target = server()
    with connect(target) as client:
        assert [tool.name for tool in client.tools.list()] == ["t"]
        assert client.tools.session_mode() == "optional"
        assert client.tools.call("t", {"a": 1}, timeout=5).text == "called"
        assert client.resources.list()[0].uri == "a://b"
        assert client.resources.templates()[0].uri_template == "a://{x}"
        assert client.resources.read("a://b").raw["contents"][0]["text"] == "inside"  # type: ignore[index,call-overload] # JSON
        client.resources.subscribe("a://b", lambda uri: None)
        client.resources.unsubscribe("a://b")
        assert client.prompts.list()[0].name == "p"
        assert client.prompts.get("p", {"a": "b"}).messages == []
        assert client.completion.complete(PromptReference(name="p"), "a", "o").values == ["one"]
        client.logging.set_level("info")
        params = CreateMessageRequestParams(
            messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=1
        )
        assert client.sampling.create_message(params).model == "m"
        assert client.roots.list()[0].uri == "file:///a"
        client.roots.set(["file:///b"])
    assert target.methods() == [*RESULTS, "notifications/roots/list_changed"] or set(target.methods()) >= set(RESULTS)


def test_errors_are_those_of_the_async_api() -> None:
    def refuse(method: str, params: dict[str, Any]) -> Any:
        raise JsonRpcError(-32602, "no such tool")

    with connect(InMemoryServer("x", refuse)) as client:
        with pytest.raises(JsonRpcError, match="no such tool"):
            client.tools.call("t")
        with pytest.raises(CapabilityError):
            client.prompts.list()


def test_handlers_run_for_requests_of_the_server() -> None:
    target = server()
    client = connect(target)

    @client.sampling.handle
    def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="sampled here"), model="m")

    @client.elicitation.handle
    async def elicit(params: object) -> ElicitResult:
        return ElicitResult(action="decline")

    client.roots.set([Root(uri="file:///a")])
    message = {"role": "user", "content": {"type": "text", "text": "x"}}
    with client:
        opening = next(sent for sent in target.received if sent["method"] == "initialize")
        assert set(opening["params"]["capabilities"]) >= {"sampling", "elicitation", "roots"}
        for id, (method, params) in enumerate(
            [
                ("sampling/createMessage", {"messages": [message], "maxTokens": 1}),
                (
                    "elicitation/create",
                    {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
                ),
                ("roots/list", {}),
            ]
        ):
            client._portal.run_on_loop(target.send, {"id": f"s{id}", "method": method, "params": params})
        with target.arrived:
            assert target.arrived.wait_for(lambda: sum("result" in sent for sent in target.received) == 3, 10)
    answers = {sent["id"]: sent["result"] for sent in target.received if "result" in sent}
    assert answers["s0"]["content"]["text"] == "sampled here"
    assert answers["s1"] == {"action": "decline"}
    assert json.dumps(answers["s2"]) == '{"roots": [{"uri": "file:///a"}]}'
