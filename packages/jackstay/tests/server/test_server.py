"""The face: decorators with and without parentheses, adding and removing, serving and ending."""

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.servers_own.conversation import STATELESS, run, talking
from chaos.standing_in import standing_in
from jackstay.errors import JsonRpcError, UsageError
from jackstay.server import Context, Kind, Server, _lifetime, find_server
from jackstay.transport import memory_pair
from jackstay.types import PromptReference, ResourceTemplateReference

SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


# --- registering ------------------------------------------------------------------------------------------------------


def test_decorators_take_options_or_none_and_return_the_function() -> None:
    server = Server("x")

    @server.tool
    def one() -> str:
        """The first."""
        return "one"

    @server.tool(name="second", title="Second", read_only=True, blocking=False)
    def two() -> str:
        return "two"

    @server.prompt
    async def three() -> str:
        return "three"

    @server.prompt(title="Fourth")
    def four() -> str:
        return "four"

    @server.resource("x://five", mime_type="text/plain")
    def five() -> str:
        return "five"

    assert (one(), two(), four(), five()) == ("one", "two", "four", "five")
    assert list(server.catalogue.tools) == ["one", "second"]
    assert server.catalogue.tools["one"].body.description == "The first."
    assert server.catalogue.tools["second"].body.annotations.read_only_hint is True  # type: ignore[union-attr]  # given
    assert list(server.catalogue.prompts) == ["three", "four"]
    assert list(server.catalogue.resources) == ["x://five"]
    assert (
        repr(server)
        == "<Server x <Catalogue 2 tools, 1 resources, 0 resourceTemplates, 2 prompts> 0 connections>"
    )
    assert server.name == "x"


def test_what_cannot_be_registered_is_refused_and_named() -> None:
    server = Server("x")
    with pytest.raises(UsageError, match=r"bad\(z\)"):

        @server.tool
        def bad(z: complex) -> None: ...

    with pytest.raises(UsageError, match="colour"):
        Server("x", colour="red")  # type: ignore[call-arg]  # that is the point
    with pytest.raises(UsageError, match="resource takes a URI"):
        server.resource(lambda: "without a URI nothing would be offered, and nobody told")  # type: ignore[arg-type]  # as above
    for decorator in (server.tool, server.prompt):
        with pytest.raises(UsageError, match=rf"@server\.{decorator.__name__}\(name='say'\)"):
            decorator("say")  # type: ignore[call-overload]  # as above
    for name, take in (
        ("middleware", server.add_middleware),
        ("on_startup", server.on_startup),
        ("on_shutdown", server.on_shutdown),
        ("subscribe", server.subscribe),
    ):
        with pytest.raises(UsageError, match=f"{name} must be a function, not 5"):
            take(5)  # type: ignore[operator]  # as above
    with pytest.raises(UsageError, match=r"serve takes one end, as memory_pair\(\)\.server"):
        asyncio.run(server.serve(memory_pair()))  # type: ignore[arg-type]  # as above
    with pytest.raises(UsageError, match="on_invalid_arguments must be a function, not 'no'"):
        Server("x", on_invalid_arguments="no")  # type: ignore[arg-type]  # as above

    async def shape(tool: str, invalid: object) -> None: ...

    with pytest.raises(UsageError, match="on_invalid_arguments must be a plain function"):
        Server("x", on_invalid_arguments=shape)


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        ("say", "ref/prompt"),
        ("x://{a}", "ref/resource"),
        (PromptReference(name="say"), "ref/prompt"),
        (ResourceTemplateReference(uri="x://{a}"), "ref/resource"),
    ],
)
def test_a_completion_is_of_a_prompt_or_of_a_template(of: Any, kind: str) -> None:
    server = Server("x")
    server.completion(of, "a", blocking=False)(lambda typed: [])
    ((found, _, argument),) = server.catalogue.completions
    assert (found, argument) == (kind, "a")


def test_a_tool_with_a_ready_schema_takes_arguments_and_a_context() -> None:
    async def test() -> None:
        server = Server("x")

        async def handler(arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
            return {"a": arguments["a"], "method": ctx.method}

        out: Any = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        server.add_tool("ready", input_schema=SCHEMA, output_schema=out, handler=handler, read_only=True)
        server.add_tool("bare", input_schema=SCHEMA, handler=lambda arguments: str(arguments), validate=False)
        with pytest.raises(UsageError, match="already"):
            server.add_tool("bare", input_schema=SCHEMA, handler=handler)
        async with talking(server) as peer:
            result = await peer.call("ready", a=1)
            assert result["structuredContent"] == {"a": 1, "method": "tools/call"}
            assert (await peer.call("ready", a="x"))["isError"] is True
            assert await peer.text("bare", b=2) == "{'b': 2}"
            server.add_tool("bare", input_schema=SCHEMA, handler=lambda arguments: "new", replace=True)
            assert await peer.text("bare", a=2) == "new"

    run(test)


def test_many_ready_tools_are_offered_as_one_change() -> None:
    """A bridge of a thousand tools tells its clients once."""
    server = Server("x")
    entries = [
        server.ready_tool(f"t{number}", input_schema=SCHEMA, handler=lambda arguments: "")
        for number in range(3)
    ]
    assert list(server.catalogue.tools) == []
    server.catalogue.add_tools(*entries)
    assert list(server.catalogue.tools) == ["t0", "t1", "t2"]
    assert server.catalogue.version(Kind.TOOLS) == 1
    with pytest.raises(UsageError, match="object"):
        server.ready_tool("bad", input_schema={"type": "string"}, handler=lambda arguments: "")


def test_an_application_may_know_more_names_than_it_lists() -> None:
    """`catalogue.listed_name`: and it may say in its own words that there is none."""

    async def test() -> None:
        server = Server("x")
        server.add_tool("a.b", input_schema=SCHEMA, handler=lambda arguments: "found", validate=False)

        def listed_name(name: str) -> str | None:
            if name == "secret":
                raise JsonRpcError(-32602, "Module not found: secret")
            return {"a-b": "a.b", "gone": "gone.tool"}.get(name)

        server.catalogue.listed_name = listed_name
        async with talking(server) as peer:
            assert await peer.text("a.b") == "found"
            assert await peer.text("a-b") == "found"
            for name, words in (
                ("gone", "unknown tool: gone"),
                ("c", "unknown tool: c"),
                ("secret", "Module not found"),
            ):
                error = await peer.error("tools/call", {"name": name})
                assert error["code"] == -32602
                assert words in error["message"]

    run(test)


# --- serving ----------------------------------------------------------------------------------------------------------


def test_every_connection_has_a_number_and_is_forgotten_in_the_end() -> None:
    async def test() -> None:
        server = Server("x")
        async with talking(server), talking(server):
            assert list(server._connections) == [1, 2]
        assert server._connections == {}

    run(test)


def test_threads_go_with_the_last_connection_and_come_again() -> None:
    async def test() -> None:
        server = Server("x")
        server.tool(name="t")(lambda: threading.current_thread().name)
        for _ in range(2):
            async with talking(server) as one, talking(server) as other:
                assert await one.text("t") == await other.text("t") == "jackstay-pool"
                threads = list(server._pool._threads)
            for thread in threads:
                thread.join(5)
            assert threads
            assert not server._pool._threads

    run(test)


def test_what_is_told_to_clients_is_made_once() -> None:
    server = Server("x")
    assert server.offer_of(frozenset()) is server.offer_of(frozenset())
    assert server.offer_of(frozenset({"tools"})) is not server.offer_of(frozenset())


def test_everything_registered_is_offered() -> None:
    server = Server("x")
    server.resource("x://{a}")(lambda a: a)
    server.prompt(name="p")(lambda: "")
    server.completion("p", "a")(lambda typed: [])
    server.tool(name="t")(lambda: "")
    assert server._offered() == {"tools", "resources", "prompts", "completions"}
    assert server._key_ring() is server._key_ring()


def test_a_connection_that_cannot_be_opened_is_forgotten() -> None:
    class Refusing:
        name, is_http, init_timeout = "x", False, 1.0

        async def open(self, *_: object) -> Any:
            raise UsageError("no")

    async def test() -> None:
        server = Server("x")
        with pytest.raises(UsageError, match="no"):
            await server.serve(Refusing())
        assert server._connections == {}

    run(test)


def test_hooks_run_at_the_end_each_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer to start a thread than a hook has.
    monkeypatch.setattr(_lifetime, "HOOKS_TIMEOUT", 0.5)

    async def test() -> None:
        server, ran = Server("x"), []

        @server.on_shutdown
        def plain() -> None:
            ran.append("plain")

        @server.on_shutdown
        async def waiting() -> None:
            ran.append("async")
            await asyncio.Event().wait()

        @server.on_shutdown
        def failing() -> None:
            raise ValueError("x")

        class Hook:
            async def __call__(self) -> None:
                ran.append("object")

        server.on_shutdown(Hook())

        @server.on_shutdown
        async def last() -> None:
            ran.append("last")

        with caplog.at_level(logging.ERROR):
            assert await server.startup()
            await server.shutdown(timeout=0.0)
            await server.shutdown(timeout=0.0)
        assert ran == ["plain", "async", "object", "last"]
        assert len(caplog.records) == 2

    run(test)


def test_serving_stdio_ends_with_its_input_and_reports_threads_that_are_left(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    gate = threading.Event()
    server = Server("x", drain_timeout=0.05)

    @server.tool
    def hang() -> None:
        gate.wait(300)

    requests = tmp_path / "requests"
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hang","_meta":{%s}}}\n'
    meta = (
        '"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{}'
    )
    requests.write_text(call % (1, meta))
    before = set(threading.enumerate())

    async def test() -> None:
        assert await server.serve_stdio() == 1  # while the thread still waits

    with (
        requests.open("rb") as stdin,
        (tmp_path / "answers").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
        caplog.at_level(logging.WARNING, "jackstay.server"),
    ):
        run(test)
    assert "1 blocking functions still run" in caplog.text
    gate.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


# --- finding ----------------------------------------------------------------------------------------------------------


def test_the_server_of_a_module_is_found_by_name_or_alone() -> None:
    server = Server("x")
    module = SimpleNamespace(__name__="m", app=server, alias=server, other=3)
    assert find_server(module) is server
    assert find_server(module, "app") is server
    with pytest.raises(UsageError, match="other is not a Server in 'm'"):
        find_server(module, "other")
    with pytest.raises(UsageError, match="has app, second; name it as FILE:NAME"):
        find_server(SimpleNamespace(app=server, second=Server("y")))
    with pytest.raises(UsageError, match="has none"):
        find_server(SimpleNamespace())


def test_a_stateless_server_refuses_the_handshake() -> None:
    async def test() -> None:
        server = Server("x", versions=(STATELESS,))
        async with talking(server, STATELESS) as peer:
            peer.version = "2025-11-25"
            error = await peer.error("initialize", {"protocolVersion": "2025-11-25"})
            assert error["code"] == -32022

    run(test)


def test_what_was_registered_can_be_removed_and_its_clients_are_told() -> None:
    async def passing(ctx: Context, call_next: Any) -> bytes:
        return await call_next()  # type: ignore[no-any-return]  # as the type says

    async def test() -> None:
        server, heard = Server("x"), []
        server.tool(name="t", blocking=False)(lambda: "t")
        server.prompt(name="p")(lambda: "p")
        server.resource("x://r")(lambda: "r")
        server.add_middleware(passing)
        leave = server.subscribe(lambda name, fields: heard.append(name))
        async with talking(server) as peer:
            await peer.result("resources/subscribe", {"uri": "x://r"})
            server.remove_tool("t")
            server.remove_prompt("p")
            server.remove_resource("x://r")
            server.notify_resource_updated("x://r")
            for what in ("tools/list_changed", "prompts/list_changed", "resources/updated"):
                await peer.note(f"notifications/{what}")
            assert (await peer.result("tools/list"))["tools"] == []
            assert "jackstay.server.request.stop" in heard
            leave()
            server.drain()
        with pytest.raises(UsageError, match="has no 't'"):
            server.remove_tool("t")

    run(test)


def test_cancelling_who_serves_ends_the_connection_first() -> None:
    async def test() -> None:
        server = Server("x")
        serving = asyncio.create_task(server.serve(memory_pair().server))
        await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert server._connections == {}

    run(test)


def test_running_is_refused_inside_a_loop() -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match="serve_stdio"):
            Server("x").run()

    run(test)


def test_serving_stdio_without_threads_left_reports_none(tmp_path: Any) -> None:
    async def test() -> None:
        assert await Server("x").serve_stdio() == 0

    (tmp_path / "in").write_bytes(b"")
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        standing_in(stdin.fileno(), stdout.fileno()),
    ):
        run(test)
