"""Calls of the page: their lines from beginning to end, questions, cancellation, redaction, and wrong fields by their paths."""

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
from jackstay.server.http import NOBODY, Principal

ALICE, BOB = Principal("alice", frozenset({"read"})), Principal("bob")


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    made = Catalogue(registry)
    made.refresh()
    return made


@pytest.fixture
def router(executor: Executor, catalogue: Catalogue) -> ExecutionRouter:
    return ExecutionRouter(executor, catalogue=catalogue)


def entry_of(catalogue: Catalogue, name: str) -> Entry:
    entry = catalogue.find(name)
    assert entry is not None
    return entry


async def all_lines(call: Call, router: Any) -> list[Any]:
    return [line async for line in call.lines(router)]


def lines_of(call: Call, router: Any) -> list[Any]:
    return asyncio.run(all_lines(call, router))


def test_a_call_begins_and_ends_with_its_result_and_its_time(
    catalogue: Catalogue, router: ExecutionRouter
) -> None:
    call = Call(entry_of(catalogue, "math.add"), {"a": 1}, NOBODY)
    began, end = lines_of(call, router)
    assert began == {"type": "began", "call": call.id, "shown": {"a": 1}, "trace_id": call.trace_id}
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


def test_each_chunk_of_a_streaming_module_is_a_line(catalogue: Catalogue, router: ExecutionRouter) -> None:
    lines = lines_of(Call(entry_of(catalogue, "text.count"), {}, NOBODY), router)
    assert [line["type"] for line in lines] == ["began", "progress", "progress", "progress", "result"]
    assert [line["progress"] for line in lines[1:4]] == [1, 2, 3]
    assert json.loads(lines[1]["message"]) == {"text": "0", "parts": {"0": True}}


def test_progress_that_nobody_reads_is_bounded(
    catalogue: Catalogue, router: ExecutionRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_WAITING", 1)
    call = Call(entry_of(catalogue, "text.count"), {}, NOBODY)
    for number in range(5):
        call.progress(number)
    assert call._lines.qsize() == 1


def test_wrong_fields_are_named_by_their_paths(catalogue: Catalogue, router: ExecutionRouter) -> None:
    end = lines_of(Call(entry_of(catalogue, "math.add"), {"b": "two"}, NOBODY), router)[-1]
    assert end["is_error"] is True
    assert sorted((row["field"], row["code"]) for row in end["problems"]) == [
        ("a", "required"),
        ("b", "type"),
    ]


def test_sensitive_values_are_not_in_what_is_kept(catalogue: Catalogue, router: ExecutionRouter) -> None:
    entry = entry_of(catalogue, "user.remove")
    call = Call(entry, {"user": "ann", "password": "hunter2hunter2", "pin": 1234}, NOBODY)

    async def check() -> None:
        lines = call.lines(router)
        began = await anext(lines)
        question = await anext(lines)
        for line in (began, question):
            assert "hunter2" not in json.dumps(line)
            assert "1234" not in json.dumps(line)
        assert began is not None
        assert began["shown"]["user"] == "ann"
        await lines.aclose()

    asyncio.run(check())


def test_sensitive_outputs_are_not_in_what_is_kept(registry: Registry, kinds: SimpleNamespace) -> None:
    output = {"user": "ann", "password": "hunter2hunter2"}
    schema = {
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"type": "string", "x-sensitive": True}},
    }
    registry.register("a.told", kinds.Plain(lambda inputs, context: output, output_schema=schema))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    end = lines_of(Call(entry_of(catalogue, "a.told"), {}, NOBODY), router)[-1]
    assert end["shown"]["user"] == "ann"
    assert "hunter2" not in json.dumps(end["shown"])
    assert "hunter2" in json.dumps(end["texts"]), "the person who called sees the result itself"


@pytest.mark.parametrize(("is_accepted", "ran"), [(True, 1), (False, 0)])
def test_approval_is_asked_of_the_person_at_the_page(
    registry: Registry, catalogue: Catalogue, router: ExecutionRouter, is_accepted: bool, ran: int
) -> None:
    call = Call(entry_of(catalogue, "user.remove"), {"user": "ann", "password": "x"}, NOBODY)

    async def check() -> Any:
        assert call.answer(True) is False, "nothing was asked yet"
        seen = []
        async for line in call.lines(router):
            assert line is not None
            seen.append(line)
            if line["type"] == "question":
                assert line["message"].startswith("Run user.remove?")
                assert call.answer(is_accepted) is True
                assert call.answer(not is_accepted) is False, "the first answer stands"
        return seen[-1]

    end = asyncio.run(check())
    assert registry.get("user.remove").ran == ran
    assert end["is_error"] is (not is_accepted)


def test_cancelling_ends_the_call_at_once_and_reaches_the_module(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    call = Call(entry_of(catalogue, "a.slow"), {}, NOBODY)

    async def check() -> Any:
        running = asyncio.ensure_future(all_lines(call, router))
        assert await asyncio.to_thread(slow.began.wait, 20)
        assert repr(call) == "<Call a.slow open>"
        call.cancel()
        lines = await running
        assert await asyncio.to_thread(slow.was_told.wait, 20)
        return lines

    end = asyncio.run(check())[-1]
    assert end["type"] == "cancelled"
    assert end["seconds"] > 0
    assert repr(call) == "<Call a.slow cancelled>"


def test_leaving_early_cancels(registry: Registry, kinds: SimpleNamespace) -> None:
    slow = kinds.Slow()
    registry.register("a.slow", slow)
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    call = Call(entry_of(catalogue, "a.slow"), {}, NOBODY)

    async def check() -> None:
        lines = call.lines(router)
        await anext(lines)
        waiting = asyncio.ensure_future(anext(lines))
        assert await asyncio.to_thread(slow.began.wait, 20)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await asyncio.to_thread(slow.was_told.wait, 20)

    asyncio.run(check())
    assert call.is_cancelled


def test_a_silent_call_gives_signs_of_life(
    registry: Registry, kinds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "KEEPALIVE", 0.01)
    registry.register("a.slow", kinds.Slow())
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)

    async def check() -> None:
        lines = Call(entry_of(catalogue, "a.slow"), {}, NOBODY).lines(router)
        await anext(lines)
        assert [await anext(lines), await anext(lines)] == [None, None]
        await lines.aclose()

    asyncio.run(check())


def test_a_router_that_raises_against_its_word_ends_the_call_in_general_words(
    catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def call(self, *given: object) -> Any:
            raise ValueError("at /home/alice")

    with caplog.at_level(logging.ERROR, "apcore_mcp.inspector"):
        end = lines_of(Call(entry_of(catalogue, "math.add"), {}, NOBODY), Broken())[-1]
    assert (end["is_error"], end["texts"]) == (True, ["Internal error occurred"])
    assert "/home/alice" in caplog.text


def test_texts_without_a_schema_are_kept_redacted_where_they_are_json(catalogue: Catalogue) -> None:
    call = Call(entry_of(catalogue, "math.add"), {}, NOBODY)
    assert call._shown(["plain words"], None) == ["plain words"]
    assert call._shown(["[1, 2]"], None) == [1, 2]
    assert call._shown(["a", "b"], None) is None
    assert "hunter2" not in json.dumps(call._shown(['{"_secret_key": "hunter2"}'], None))


def test_a_call_is_found_by_whom_it_belongs_to_alone(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_ids_cannot_be_guessed(catalogue: Catalogue) -> None:
    entry = entry_of(catalogue, "math.add")
    ids = {Call(entry, {}, NOBODY).id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 22


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    line = encode({"text": "a\nb\u2028\ud800", "big": 10**30, "path": object})
    assert line.count(b"\n") == 1
    assert json.loads(line)["big"] == 10**30


def test_the_log_has_the_trace_id_that_the_page_gets(
    catalogue: Catalogue, router: ExecutionRouter, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal error shows nothing else that leads to its cause."""
    call = Call(entry_of(catalogue, "math.add"), {"a": 1}, NOBODY)
    with caplog.at_level(logging.INFO, "apcore_mcp"):
        began, _ = lines_of(call, router)
    assert f"[trace_id={began['trace_id']}]" in caplog.text
