"""Calls from the inspector page: lines, prompts, cancellation, redaction, and invalid fields."""

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.catalogue import Catalogue, Entry
from apcore_mcp.inspector import calls
from apcore_mcp.inspector.calls import Call, Calls, encode
from apcore_mcp.server.router import ExecutionRouter
from jackstay.server.http import ANONYMOUS, Principal

ALICE, BOB = Principal("alice", frozenset({"read"})), Principal("bob")


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    return catalogue


@pytest.fixture
def router(executor: Executor, catalogue: Catalogue) -> ExecutionRouter:
    return ExecutionRouter(executor, catalogue=catalogue)


def entry_of(catalogue: Catalogue, name: str) -> Entry:
    entry = catalogue.find(name)
    assert entry is not None
    return entry


async def all_lines(call: Call, router: Any) -> list[Any]:
    return [line async for line in call.lines(router)]


async def lines_of(call: Call, router: Any) -> list[Any]:
    return await all_lines(call, router)


async def test_call_lines(catalogue: Catalogue, router: ExecutionRouter) -> None:
    call = Call(entry_of(catalogue, "math.add"), {"a": 1}, ANONYMOUS)
    started, end = await lines_of(call, router)
    assert started == {"type": "began", "call": call.id, "shown": {"a": 1}, "trace_id": call.trace_id}
    seconds = end.pop("seconds")
    assert 0 < seconds < 30
    assert end == {
        "type": "result",
        "is_error": False,
        "texts": ['{"total": 3}'],
        "problems": [],
        "structured": {"total": 3},
        "shown": {"total": 3},
    }


async def test_chunks_are_progress_lines(catalogue: Catalogue, router: ExecutionRouter) -> None:
    lines = await lines_of(Call(entry_of(catalogue, "text.count"), {}, ANONYMOUS), router)
    assert [line["type"] for line in lines] == ["began", "progress", "progress", "progress", "result"]
    assert [line["progress"] for line in lines[1:4]] == [1, 2, 3]
    assert json.loads(lines[1]["message"]) == {"text": "0", "parts": {"0": True}}


def test_queued_progress_is_limited(
    catalogue: Catalogue, router: ExecutionRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_QUEUED_PROGRESS", 1)
    call = Call(entry_of(catalogue, "text.count"), {}, ANONYMOUS)
    for number in range(5):
        call.progress(number)
    assert call._lines.qsize() == 1


async def test_invalid_fields_have_paths(catalogue: Catalogue, router: ExecutionRouter) -> None:
    end = (await lines_of(Call(entry_of(catalogue, "math.add"), {"b": "two"}, ANONYMOUS), router))[-1]
    assert end["is_error"] is True
    assert sorted((row["field"], row["code"]) for row in end["problems"]) == [
        ("a", "required"),
        ("b", "type"),
    ]


async def test_sensitive_arguments_are_not_in_the_history(catalogue: Catalogue, router: ExecutionRouter) -> None:
    entry = entry_of(catalogue, "user.remove")
    call = Call(entry, {"user": "ann", "password": "hunter2hunter2", "pin": 1234}, ANONYMOUS)

    lines = call.lines(router)
    started = await anext(lines)
    question = await anext(lines)
    for line in (started, question):
        assert "hunter2" not in json.dumps(line)
        assert "1234" not in json.dumps(line)
    assert started is not None
    assert started["shown"]["user"] == "ann"
    await lines.aclose()


async def test_sensitive_outputs_are_not_in_the_history(registry: Registry, kinds: SimpleNamespace) -> None:
    output = {"user": "ann", "password": "hunter2hunter2"}
    schema = {
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"type": "string", "x-sensitive": True}},
    }
    registry.register("a.secret", kinds.Plain(lambda inputs, context: output, output_schema=schema))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue, redact_output=False)
    end = (await lines_of(Call(entry_of(catalogue, "a.secret"), {}, ANONYMOUS), router))[-1]
    assert end["shown"]["user"] == "ann"
    assert "hunter2" not in json.dumps(end["shown"])
    assert "hunter2" in json.dumps(end["texts"]), "without redaction the caller gets the result itself"


@pytest.mark.parametrize(("is_accepted", "ran"), [(True, 1), (False, 0)])
async def test_approval_by_the_user_of_the_page(
    registry: Registry, catalogue: Catalogue, router: ExecutionRouter, is_accepted: bool, ran: int
) -> None:
    call = Call(entry_of(catalogue, "user.remove"), {"user": "ann", "password": "x"}, ANONYMOUS)

    assert call.answer(True) is False, "there is no prompt yet"
    seen = []
    async for line in call.lines(router):
        assert line is not None
        seen.append(line)
        if line["type"] == "question":
            assert line["message"].startswith("Run user.remove?")
            assert call.answer(is_accepted) is True
            assert call.answer(not is_accepted) is False, "the first answer counts"
    end = seen[-1]
    assert registry.get("user.remove").ran == ran
    assert end["is_error"] is (not is_accepted)


async def test_cancel_reaches_the_module(registry: Registry, kinds: SimpleNamespace) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    call = Call(entry_of(catalogue, "a.slow"), {}, ANONYMOUS)

    running = asyncio.ensure_future(all_lines(call, router))
    assert await asyncio.to_thread(slow.started.wait, 20)
    assert repr(call) == "<Call a.slow open>"
    call.cancel()
    lines = await running
    assert await asyncio.to_thread(slow.was_cancelled.wait, 20)
    end = lines[-1]
    assert end["type"] == "cancelled"
    assert end["seconds"] > 0
    assert repr(call) == "<Call a.slow cancelled>"


async def test_closing_the_lines_cancels(registry: Registry, kinds: SimpleNamespace) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    call = Call(entry_of(catalogue, "a.slow"), {}, ANONYMOUS)

    lines = call.lines(router)
    await anext(lines)
    waiting = asyncio.ensure_future(anext(lines))
    assert await asyncio.to_thread(slow.started.wait, 20)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await asyncio.to_thread(slow.was_cancelled.wait, 20)
    assert call.is_cancelled


async def test_keepalive(registry: Registry, kinds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEEPALIVE", 0.01)
    registry.register("a.slow", kinds.Slow())
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)

    lines = Call(entry_of(catalogue, "a.slow"), {}, ANONYMOUS).lines(router)
    await anext(lines)
    assert [await anext(lines), await anext(lines)] == [None, None]
    await lines.aclose()


async def test_unexpected_error_of_the_router(catalogue: Catalogue, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def call(self, *given: object) -> Any:
            raise ValueError("at /home/alice")

    with caplog.at_level(logging.ERROR, "apcore_mcp.inspector"):
        end = (await lines_of(Call(entry_of(catalogue, "math.add"), {}, ANONYMOUS), Broken()))[-1]
    assert (end["is_error"], end["texts"]) == (True, ["Internal error occurred"])
    assert "/home/alice" in caplog.text


def test_json_texts_without_a_schema_are_redacted(catalogue: Catalogue) -> None:
    call = Call(entry_of(catalogue, "math.add"), {}, ANONYMOUS)
    assert call._shown(["plain words"], None) == ["plain words"]
    assert call._shown(["[1, 2]"], None) == [1, 2]
    assert call._shown(["a", "b"], None) is None
    assert "hunter2" not in json.dumps(call._shown(['{"_secret_key": "hunter2"}'], None))


def test_call_is_found_only_by_its_principal(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Calls()
    call = Call(entry_of(catalogue, "math.add"), {}, ALICE)
    running.add(call)
    assert (call.principal, call.scopes, call.is_cancelled) == ("alice", frozenset({"read"}), False)
    assert running.find(call.id, ALICE) is call
    assert running.find(call.id, BOB) is None
    assert running.find(["no id"], ALICE) is None
    assert (len(running), repr(running), running.is_full) == (1, "<Calls 1 running>", False)
    monkeypatch.setattr(calls, "MAX_CALLS", 1)
    assert running.is_full
    running.remove(call)
    assert running.find(call.id, ALICE) is None


def test_ids_are_unguessable(catalogue: Catalogue) -> None:
    entry = entry_of(catalogue, "math.add")
    ids = {Call(entry, {}, ANONYMOUS).id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 22


def test_encode_is_one_line() -> None:
    line = encode({"text": "a\nb\u2028\ud800", "big": 10**30, "path": object})
    assert line.count(b"\n") == 1
    assert json.loads(line)["big"] == 10**30


async def test_trace_id_is_in_the_log(
    catalogue: Catalogue, router: ExecutionRouter, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal error has no other reference to its cause."""
    call = Call(entry_of(catalogue, "math.add"), {"a": 1}, ANONYMOUS)
    with caplog.at_level(logging.INFO, "apcore_mcp"):
        started, _ = await lines_of(call, router)
    assert f"[trace_id={started['trace_id']}]" in caplog.text


async def test_the_traceback_of_a_module_is_shown_only_if_allowed(registry: Registry, kinds: SimpleNamespace) -> None:
    def fail(inputs: Any, context: Any) -> Any:
        raise RuntimeError(f"the disk is full, {inputs['password']}")

    schema = {"type": "object", "properties": {"password": {"type": "string", "x-sensitive": True}}}
    registry.register("test.fails", kinds.Plain(fail, input_schema=schema))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    entry, handlers = entry_of(catalogue, "test.fails"), list(logging.getLogger("apcore_mcp").handlers)
    for is_allowed in (True, False):
        call = Call(entry, {"password": "hunter2-hunter2"}, ANONYMOUS, shows_traceback=is_allowed)
        _, end = await lines_of(call, router)
        assert end["texts"] == ["Internal error occurred"]
        assert ("RuntimeError: the disk is full" in end.get("debug", "")) is is_allowed
        assert "hunter2" not in end.get("debug", "")
    assert logging.getLogger("apcore_mcp").handlers == handlers
