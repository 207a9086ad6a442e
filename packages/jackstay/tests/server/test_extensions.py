"""A server with extensions: their declaration, methods and interceptors."""

import asyncio
from typing import Any

import msgspec
import pytest

from jackstay import Client, Context, Server, connect
from jackstay.errors import JsonRpcError, UsageError
from jackstay.extensions import Extension

COUNTS = "com.example/counts"
DECLARED: dict[str, Any] = {"extensions": {COUNTS: {}}}


class CountParams(msgspec.Struct):
    word: str


def counting() -> tuple[Server, Extension]:
    """A server that counts the calls of its tools, for clients that declare it."""
    counts: dict[str, int] = {}
    extension = Extension(COUNTS, settings={"max": 10})

    @extension.method("counts/get")
    async def get(ctx: Context, params: CountParams) -> dict[str, Any]:
        if params.word == "teapot":
            raise JsonRpcError(418, "not a word")
        if params.word == "defect":
            raise ZeroDivisionError
        return {"count": counts.get(params.word, 0), "method": ctx.method}

    @extension.method("counts/list")
    def names(_: Context, params: dict[str, Any]) -> Any:
        return sorted(counts) if params.get("plain") else {"words": sorted(counts)}

    @extension.intercept("tools/call")
    async def count(ctx: Context, call_next: Any) -> bytes:
        name = str(ctx.params["name"])
        counts[name] = counts.get(name, 0) + 1
        result: bytes = await call_next()
        return result

    server = Server("counting", extensions=[extension])

    @server.tool
    def echo(text: str) -> str:
        return text

    return server, extension


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_both_sides_use_an_extension_that_they_declared(version: str) -> None:
    server, _ = counting()
    async with connect(server, capabilities=DECLARED, versions=(version,)) as client:
        assert client.server_capabilities.extensions == {COUNTS: {"max": 10}}
        assert (await client.tools.call("echo", {"text": "a"})).text == "a"
        found = await client.submit("counts/get", {"word": "echo"})
        assert (found["count"], found["method"]) == (1, "counts/get")
        assert (await client.submit("counts/list"))["words"] == ["echo"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_did_not_declare_it_is_refused(version: str) -> None:
    server, _ = counting()
    async with connect(server, versions=(version,)) as client:
        assert (await client.tools.call("echo", {"text": "a"})).text == "a"
        with pytest.raises(JsonRpcError, match="did not declare the extension") as refused:
            await client.submit("counts/get", {"word": "echo"})
        assert refused.value.code == -32021
        assert isinstance(refused.value.data, dict)
        assert refused.value.data["requiredCapabilities"] == {"extensions": {COUNTS: {}}}
    async with connect(server, capabilities=DECLARED, versions=(version,)) as client:
        assert (await client.submit("counts/get", {"word": "echo"}))["count"] == 0  # not intercepted


async def test_failures_of_a_method() -> None:
    server, _ = counting()
    async with connect(server, capabilities=DECLARED) as client:
        for params, code, message in (
            ({}, -32602, "invalid params for counts/get"),
            ({"word": "teapot"}, 418, "not a word"),
            ({"word": "defect"}, -32603, "counts/get failed"),
        ):
            with pytest.raises(JsonRpcError, match=message) as failed:
                await client.submit("counts/get", params)
            assert failed.value.code == code
        with pytest.raises(JsonRpcError, match="did not return an object"):
            await client.submit("counts/list", {"plain": True})
        with pytest.raises(JsonRpcError) as unknown:
            await client.submit("counts/other")
        assert unknown.value.code == -32601


async def test_a_subscription_passes_an_interceptor() -> None:
    extension = Extension(COUNTS)
    seen = asyncio.Event()

    @extension.intercept("subscriptions/listen")
    async def notice(ctx: Context, call_next: Any) -> bytes:
        seen.set()
        result: bytes = await call_next()
        return result

    server = Server("listening", extensions=extension)  # type: ignore[arg-type]  # one is accepted, too
    server.resource("memo://1")(lambda: "text")
    async with connect(server, capabilities=DECLARED) as client:
        await client.resources.subscribe("memo://1", print)
        assert seen.is_set()


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_an_interceptor_returns_another_result_as_an_object(version: str) -> None:
    """One that a handler of the client completes, one of MCP, and what is none."""
    extension, own = Extension(COUNTS), Extension(COUNTS)
    kept: list[bytes] = []

    @extension.intercept("tools/call")
    async def intercept(ctx: Context, call_next: Any) -> Any:
        result: bytes = await call_next()
        match ctx.params["arguments"]["text"]:
            case "later":
                kept.append(result)
                return {"resultType": "voucher", "voucher": "v1"}
            case "other":
                return {"content": [{"type": "text", "text": "another"}]}
            case "none":
                return None
            case "empty":
                return b""
            case _:
                raise ValueError("a secret")

    @extension.method("vouchers/redeem")
    def redeem(ctx: Context, params: dict[str, Any]) -> Any:
        assert params["voucher"] == "v1"
        return msgspec.Raw(kept.pop())

    @own.result("voucher")
    async def complete(client: Client, result: dict[str, Any]) -> Any:
        return await client.submit("vouchers/redeem", {"voucher": result["voucher"]})

    server = Server("vouchers", extensions=[extension])
    server.tool(name="echo")(lambda text: text)
    async with connect(server, extensions=[own], versions=(version,)) as client:
        assert (await client.tools.call("echo", {"text": "other"})).text == "another"
        if version == "2026-07-28":  # earlier results have no `resultType`
            assert (await client.tools.call("echo", {"text": "later"})).text == "later"
        for text in ("none", "empty", "raises"):
            with pytest.raises(JsonRpcError, match="tools/call failed") as failed:
                await client.tools.call("echo", {"text": text})
            assert (failed.value.code, "secret" in str(failed.value)) == (-32603, False)


def test_a_declaration_that_cannot_work_is_refused() -> None:
    def extension(**functions: Any) -> Extension:
        made = Extension(COUNTS)
        made.methods.update(functions.get("methods", {}))
        made.interceptors.update(functions.get("interceptors", {}))
        return made

    with pytest.raises(UsageError, match="'ping' is a method of MCP"):
        Server("x", extensions=[extension(methods={"ping": lambda ctx, params: {}})])
    with pytest.raises(UsageError, match="must have two parameters"):
        Server("x", extensions=[extension(methods={"counts/get": lambda ctx: {}})])
    with pytest.raises(UsageError, match="cannot intercept the unknown 'tools/shout'"):
        Server("x", extensions=[extension(interceptors={"tools/shout": print})])
