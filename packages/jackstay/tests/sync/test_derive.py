"""The blocking classes are derived from the async ones, and each call reaches the server."""

import inspect
import json
import pydoc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import jackstay.client as async_api
import jackstay.sync as sync_api
from jackstay import models
from jackstay.errors import CapabilityError, JsonRpcError
from jackstay.sync import connect
from jackstay.sync._derive import Blocking, like
from jackstay.sync._portal import ClientPortal
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
from scripted.places import ROOT

# The classes with a blocking counterpart; `Call` is not derived, because `await call` is `call.result()`.
DERIVED = [name for name in sync_api.__all__ if name[0].isupper() and name != "Call"]


def source_of(name: str) -> type:
    return getattr(models if name == "Toolbox" else async_api, name)


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_every_member_has_the_signature_and_the_docstring_of_the_async_one() -> None:
    for name in DERIVED:
        source, blocking = source_of(name), getattr(sync_api, name)
        assert public(source) == public(blocking), name
        for member in public(source) - {"submit"}:  # it returns another `Call`
            original, derived = (inspect.getattr_static(cls, member) for cls in (source, blocking))
            if isinstance(original, property):
                original, derived = original.fget, derived.fget
            original, derived = (getattr(each, "__func__", each) for each in (original, derived))
            assert inspect.signature(derived) == inspect.signature(original), f"{name}.{member}"
            assert derived.__doc__ == original.__doc__, f"{name}.{member}"
            assert not inspect.iscoroutinefunction(derived)
        assert blocking.__module__ == "jackstay.sync"


def test_a_method_added_to_an_async_class_is_added_to_the_blocking_one() -> None:
    class Async:
        """Something new; use `async with`."""

        def __init__(self) -> None:
            self.public, self._private = "shared", 1

        async def added(self, number: int, *, factor: int = 2) -> int:
            """Multiply."""
            return number * factor

        def where(self) -> str:
            return threading.current_thread().name

        def here(self) -> str:
            return threading.current_thread().name

        @property
        def place(self) -> str:
            """Where it runs."""
            return threading.current_thread().name

        @classmethod
        def create(cls) -> "Async":
            return cls()

        LIMIT = 3

    class Derived(Blocking, source=Async, inline=("here",)): ...

    derived = Derived(Async(), ClientPortal())
    assert derived.added(3) == 6
    assert derived.added(3, factor=4) == 12
    assert str(inspect.signature(derived.added)) == "(number: int, *, factor: int = 2) -> int"
    assert (derived.where(), derived.place) == ("jackstay-sync", "jackstay-sync")
    assert derived.here() == "MainThread"
    assert derived.public == "shared"
    assert isinstance(Derived.create(), Derived)
    assert Derived.__doc__ == "Something new; use `with`."
    assert not hasattr(derived, "LIMIT")
    assert {"added", "where", "here", "place", "create", "public"} <= set(dir(derived))
    assert "Multiply." in pydoc.render_doc(Derived, renderer=pydoc.plaintext)
    del Blocking._counterparts[Async]


def test_the_stub_for_type_checkers_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_sync_stub.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_the_stub_has_a_method_that_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from make_sync_stub import stub_text

    async def added(self: object, uri: str = "a://b") -> list[str]:
        """Do something new."""
        raise AssertionError

    monkeypatch.setattr(sync_api.Prompts, "added", like(added)(lambda self: None), raising=False)
    added.__module__ = async_api.Prompts.__module__
    text = stub_text()
    assert 'def added(self: object, uri: str = "a://b") -> builtins.list[str]:' in text
    assert Path(inspect.getfile(sync_api)).with_suffix(".pyi").read_text() != text


def test_no_namespace_is_missing() -> None:
    target = InMemoryServer("x", lambda method, params: None)
    async_names = {name for name in vars(async_api.connect(target)) if not name.startswith("_")}
    client = sync_api.connect(target)
    # `forwarding` is for proxies, which cannot forward messages while they block.
    assert async_names - {"forwarding"} == {name for name in vars(client) if not name.startswith("_")}
    assert type(client.tools) is sync_api.Tools
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
        assert client.tools.call("t", {"a": 1}, timeout=60).text == "called"
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
            assert target.arrived.wait_for(lambda: sum("result" in sent for sent in target.received) == 3, 60)
    answers = {sent["id"]: sent["result"] for sent in target.received if "result" in sent}
    assert answers["s0"]["content"]["text"] == "sampled here"
    assert answers["s1"] == {"action": "decline"}
    assert json.dumps(answers["s2"]) == '{"roots": [{"uri": "file:///a"}]}'
