"""F-003, F-004, F-013, F-014, F-023, F-024: one call, from arguments to a result."""

import asyncio
import json
import logging
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from apcore import ACL, ACLRule, Executor, ModuleError, ModuleTimeoutError, Registry
from pydantic import BaseModel

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import ExecutionRouter
from apcore_mcp.server.router import to_json
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult


def router_of(registry: Registry, **options: Any) -> ExecutionRouter:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    return ExecutionRouter(Executor(registry), catalogue=catalogue, **options)


def call(router: ExecutionRouter, name: str, arguments: Any = None, caller: Any = None) -> CallToolResult:
    return asyncio.run(router.handle_call(name, arguments, caller))


def test_a_call_gives_json_as_text_and_as_structure(registry: Registry) -> None:
    """F-003, F-013."""
    for name in ("math.add", "math-add"):
        result = call(router_of(registry), name, {"a": 1, "b": 5})
        assert result.text == '{"total": 6}'
        assert result.structured_content == {"total": 6}
        assert result.is_error is None


def test_defaults_of_the_schema_are_filled_in_unless_it_is_turned_off(registry: Registry) -> None:
    """Section 3: pydantic defaults are not applied to inputs."""
    assert call(router_of(registry), "math.add", {"a": 1}).structured_content == {"total": 3}
    router = router_of(registry, fill_defaults=False)
    assert call(router, "math.add", {"a": 1}).text == "Internal error occurred"
    assert call(router, "math.later", {"a": 1}).structured_content == {"total": 1}


def test_without_a_catalogue_the_whole_registry_is_the_catalogue(executor: Executor) -> None:
    """Seed 6.3: `ExecutionRouter(executor)`."""
    assert call(ExecutionRouter(executor), "math.add", {"a": 1}).structured_content == {"total": 3}


def test_what_is_no_executor_is_refused(registry: Registry) -> None:
    """Seed 6.3."""
    with pytest.raises(TypeError, match="Executor, not Registry"):
        ExecutionRouter(registry)


def test_a_module_that_is_not_offered_is_not_found(registry: Registry, executor: Executor) -> None:
    """F-004, F-018: the filter is the gate for calls."""
    catalogue = Catalogue(registry, prefix="text.")
    catalogue.refresh()
    router = ExecutionRouter(executor, catalogue=catalogue)
    assert call(router, "math.add", {"a": 1}).text == "Module not found: math.add"


def test_a_module_that_is_gone_since_is_not_found(registry: Registry) -> None:
    router = router_of(registry)
    registry.unregister("math.add")
    assert call(router, "math.add", {"a": 1}).text == "Module not found: math.add"


@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Input validation failed:\n- a: Field required (required)"),
        ({"a": "1"}, "Input validation failed:\n- a: must be integer (type)"),
        (
            {"a": None, "b": []},
            "Input validation failed:\n- a: must be integer (type)\n- b: must be integer (type)",
        ),
    ],
)
def test_every_wrong_field_is_named(registry: Registry, validates: bool, arguments: Any, text: str) -> None:
    """F-004, F-023; section 3: the name of a missing field is lost by apcore."""
    result = call(router_of(registry, validate_inputs=validates), "math.add", arguments)
    assert result.text == text
    assert result.is_error is True


def test_validation_happens_before_the_module_runs(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-023: unknown fields are reported where the schema forbids them."""
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    registry.register("x.y", kinds.Plain(lambda i, c: ran.append(i) or {}, input_schema=schema))
    router = router_of(registry, validate_inputs=True)
    assert (
        call(router, "x.y", {"b": 1}).text
        == "Input validation failed:\n- b: Unknown field (additionalProperties)"
    )
    assert ran == []


class Even(BaseModel):
    number: int

    @classmethod
    def model_validate_json(cls, *args: Any, **keywords: Any) -> Any:
        from pydantic_core import PydanticCustomError, ValidationError

        raise ValidationError.from_exception_data(
            "Even", [{"type": PydanticCustomError("odd", "must be even"), "loc": ("number",), "input": 1}]
        )


def test_what_only_the_model_knows_is_told_in_its_words(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-004: our rules find nothing, so apcore's are told."""
    registry.register("x.y", kinds.Plain(lambda i, c: {}, input_schema=Even))
    assert "- number: must be even" in call(router_of(registry), "x.y", {"number": 1}).text


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"n": {"type": "integer"}}}, "model"])
def test_an_output_failure_is_not_called_an_input_failure(
    registry: Registry, kinds: SimpleNamespace, schema: Any
) -> None:
    """Section 4."""
    schema = kinds.Total if schema == "model" else schema
    registry.register("x.y", kinds.Plain(lambda i, c: {"n": "x"}, output_schema=schema))
    assert call(router_of(registry), "x.y").text == "Module error: SCHEMA_VALIDATION_ERROR"


def test_bad_input_to_a_module_that_this_one_calls_is_not_the_clients(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """The client cannot mend it."""

    class Calls(kinds.Plain):  # type: ignore[misc, name-defined]  # made by a fixture
        async def execute(self, inputs: Any, context: Any) -> Any:
            return await context.executor.call_async("math.add", {"a": "secret"}, context)

    registry.register("x.y", Calls(lambda i, c: {}))
    assert call(router_of(registry), "x.y").text == "Module error: SCHEMA_VALIDATION_ERROR"


def raising(error: BaseException) -> Any:
    def does(inputs: Any, context: Any) -> Any:
        raise error

    return does


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("/secret/disk full"), "Internal error occurred"),
        (ModuleError(code="OUT_OF_STOCK", message="secret"), "Module error: OUT_OF_STOCK"),
        (ModuleTimeoutError(module_id="x.y", timeout_ms=5), "Module timed out after 5ms"),
    ],
)
def test_what_a_module_raises_is_told_without_its_words(
    registry: Registry,
    kinds: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    text: str,
) -> None:
    """F-004; section 4: raw exception text leaks. The log has it."""
    registry.register("x.y", kinds.Plain(raising(error)))
    result = call(router_of(registry), "x.y")
    assert result.text == text
    assert result.is_error is True
    if isinstance(error, RuntimeError):
        assert "disk full" in caplog.text


def test_the_access_list_of_an_executor_holds(registry: Registry) -> None:
    """F-014: used as it is; the caller is not told."""
    acl = ACL(rules=[ACLRule(callers=["*"], targets=["math.add"], effect="deny")], default_effect="allow")
    executor = Executor(registry, acl=acl)
    assert call(ExecutionRouter(executor), "math.add", {"a": 1}).text == "Access denied"
    assert call(ExecutionRouter(executor), "math.later", {"a": 1}).is_error is None


def test_a_proved_caller_is_the_identity_of_the_call(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-014: rules by identity and role."""
    seen: list[Any] = []
    registry.register("x.y", kinds.Plain(lambda i, c: seen.append(c.identity) or {}))
    caller = kinds.Caller()
    call(router_of(registry), "x.y", {}, caller)
    caller.principal, caller.scopes = "ann", frozenset({"write", "read"})
    call(router_of(registry), "x.y", {}, caller)
    assert seen[0] is None
    assert (seen[1].id, seen[1].roles) == ("ann", ("read", "write"))


# --- outputs ----------------------------------------------------------------------------------------------------------

ODD = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"when": datetime(2026, 1, 2, 3, 4)}, '{"when": "2026-01-02T03:04:00"}'),
        ({"path": PurePosixPath("/a")}, '{"path": "/a"}'),
        ({"id": ODD, "raw": b"x"}, f'{{"id": "{ODD}", "raw": "eA=="}}'),
        ({"é": "ü"}, '{"é": "ü"}'),
        ({"half": "\ud800"}, '{"half": "?"}'),
    ],
)
def test_outputs_are_json_whatever_is_in_them(
    registry: Registry, kinds: SimpleNamespace, value: Any, text: str
) -> None:
    """By their JSON values, and text where there is none."""
    registry.register("x.y", kinds.Plain(lambda i, c: value))
    result = call(router_of(registry), "x.y")
    assert result.text == text
    assert result.structured_content is None  # F-013: no output schema, no structure


def test_no_output_is_an_empty_object(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-003."""
    registry.register("x.y", kinds.Plain(lambda i, c: None))
    assert call(router_of(registry), "x.y").text == "{}"


def test_nothing_from_an_executor_of_ones_own_is_an_empty_object(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = router_of(registry)

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(router._executor, "call_async", nothing)
    assert call(router, "math.add", {"a": 1}).structured_content == {}


class Ratio(BaseModel):
    ratio: float | None


class Strict(BaseModel):
    ratio: float
    rows: list[float] = []


def test_nan_is_null_where_the_schema_has_null(registry: Registry, kinds: SimpleNamespace) -> None:
    """Section 4: NaN can never be returned."""
    registry.register("x.y", kinds.Plain(lambda i, c: {"ratio": float("nan")}, output_schema=Ratio))
    result = call(router_of(registry), "x.y")
    assert result.text == '{"ratio": null}'
    assert result.structured_content == {"ratio": None}


def test_nan_that_the_schema_has_no_place_for_is_told_in_words(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """A client would refuse the structure: it gets the output and the reason instead."""
    value = {"ratio": 1.5, "rows": [0.5, float("inf")]}
    registry.register("x.y", kinds.Plain(lambda i, c: value, output_schema=Strict))
    result = call(router_of(registry), "x.y")
    assert result.is_error is True
    assert result.structured_content is None
    assert result.text == (
        "The module ran, but JSON has no form for its output at rows[1] (null here):\n"
        '{"ratio": 1.5, "rows": [0.5, null]}'
    )


class Secret(BaseModel):
    pin: int


def test_sensitive_outputs_that_are_no_text_are_returned(registry: Registry, kinds: SimpleNamespace) -> None:
    """Section 4: sensitive non-string outputs can never be returned."""
    schema = {"type": "object", "properties": {"pin": {"type": "integer", "x-sensitive": True}}}
    registry.register("x.y", kinds.Plain(lambda i, c: {"pin": 1234}, output_schema=schema))
    assert call(router_of(registry), "x.y").structured_content == {"pin": 1234}


def test_an_output_that_contains_itself_is_an_error_and_not_a_crash(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(ValueError, match="contains itself"):
        to_json(loop)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    registry.register("x.y", kinds.Plain(lambda i, c: {"deep": deep}))
    assert call(router_of(registry), "x.y").text == "Internal error occurred"


# --- streams ----------------------------------------------------------------------------------------------------------


def test_each_chunk_is_progress_and_the_result_is_all_of_them(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """F-024: only if the client asked; progress increases."""
    caller = kinds.Caller({"progressToken": 0})
    result = call(router_of(registry), "text.count", {}, caller)
    assert [progress for progress, _ in caller.heard] == [1, 2, 3]
    assert [json.loads(message) for _, message in caller.heard] == [
        {"text": str(number), "parts": {str(number): True}} for number in range(3)
    ]
    assert result.structured_content == {"text": "2", "parts": {"0": True, "1": True, "2": True}}


def test_without_a_token_nothing_is_streamed(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-024."""
    caller = kinds.Caller()
    result = call(router_of(registry), "text.count", {}, caller)
    assert caller.heard == []
    assert result.structured_content == {"text": "whole", "parts": {}}


def test_an_ordinary_module_is_not_streamed(registry: Registry, kinds: SimpleNamespace) -> None:
    """Section 4: any progress token forces streaming."""
    caller = kinds.Caller({"progressToken": "t"})
    assert call(router_of(registry), "math.add", {"a": 1}, caller).structured_content == {"total": 3}
    assert caller.heard == []


def test_chunks_are_merged_at_every_depth(registry: Registry, kinds: SimpleNamespace) -> None:
    """As apcore merges them: objects into each other, everything else replaced."""
    chunks = [{"a": {"x": {"deep": 1}}}, {"a": {"x": {"more": 2}}}]

    class Streams(kinds.Plain):  # type: ignore[misc, name-defined]  # made by a fixture
        async def stream(self, inputs: Any, context: Any) -> Any:
            for chunk in chunks:
                yield chunk

    registry.register("x.y", Streams(lambda i, c: {}))
    caller = kinds.Caller({"progressToken": 1})
    result = call(router_of(registry), "x.y", {}, caller)
    assert json.loads(result.text) == {"a": {"x": {"deep": 1, "more": 2}}}
    assert json.loads(caller.heard[0][1]) == {"a": {"x": {"deep": 1}}}


# --- cancelling -------------------------------------------------------------------------------------------------------


def test_cancelling_releases_the_caller_at_once_and_reaches_the_module(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """Section 4: cancellation is not passed on."""
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    ended: list[str] = []
    router = router_of(registry)
    router.on_call(lambda entry, seconds, outcome: ended.append(outcome))

    async def cancel() -> None:
        task = asyncio.ensure_future(router.handle_call("x.slow", {}))
        await asyncio.to_thread(slow.began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(slow.was_told.wait, 30)

    asyncio.run(cancel())
    assert ended == ["cancelled"]


def test_a_module_hears_of_it_while_its_caller_still_waits(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """The token is the request's own: a module in a thread looks only there."""
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    caller = kinds.Caller()

    async def cancel() -> CallToolResult:
        task = asyncio.ensure_future(router_of(registry).handle_call("x.slow", {}, caller))
        await asyncio.to_thread(slow.began.wait, 30)
        caller.is_cancelled = True
        return await task

    assert asyncio.run(cancel()).text == "{}"
    assert slow.was_told.is_set()


# --- approval ---------------------------------------------------------------------------------------------------------

WHO = {"user": "ann", "password": "hunter2", "pin": 1234}


@pytest.mark.parametrize(("answer", "runs"), [(True, 1), (False, 0), ("yes", 0), (RuntimeError("gone"), 0)])
def test_a_module_that_asks_for_approval_runs_only_with_it(
    registry: Registry, kinds: SimpleNamespace, answer: Any, runs: int
) -> None:
    """Settled: fail closed, with the secrets hidden."""
    caller = kinds.Caller(answer=answer)
    result = call(router_of(registry), "user.remove", WHO, caller)
    assert registry.get("user.remove").ran == runs
    assert (result.is_error is True) is (runs == 0)
    (asked,) = caller.asked
    assert "ann" in asked
    assert "hunter2" not in asked
    assert "1234" not in asked


def test_without_anybody_to_ask_it_does_not_run(registry: Registry) -> None:
    """Settled: refuse with a clear text."""
    result = call(router_of(registry), "user.remove", WHO)
    assert result.text.startswith("Approval required: user.remove")
    assert registry.get("user.remove").ran == 0


def test_approval_can_be_given_once_and_for_all(registry: Registry) -> None:
    """Settled: `approval="allow"` opts out."""
    assert call(router_of(registry, approval="allow"), "user.remove", WHO).is_error is None


def test_an_executor_that_handles_approval_is_left_to_it(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-014."""
    from apcore import AlwaysDenyHandler

    caller = kinds.Caller(answer=True)
    router = ExecutionRouter(Executor(registry, approval_handler=AlwaysDenyHandler()))
    assert call(router, "user.remove", WHO, caller).text == "Module error: APPROVAL_DENIED"
    assert caller.asked == []


def test_wrong_arguments_are_refused_before_anybody_is_asked(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    caller = kinds.Caller(answer=True)
    call(router_of(registry, validate_inputs=True), "user.remove", {"user": 1}, caller)
    assert caller.asked == []


# --- what else a call carries -----------------------------------------------------------------------------------------


def test_the_trace_of_the_client_is_the_trace_of_the_call(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """traceparent in `_meta` becomes the parent; the id is in every log line of that call."""
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    seen: list[str] = []

    def fail(inputs: Any, context: Any) -> Any:
        seen.append(context.trace_id)
        raise RuntimeError("x")

    registry.register("x.y", kinds.Plain(fail))
    caller = kinds.Caller({"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"})
    with caplog.at_level(logging.DEBUG, "apcore_mcp"):
        router = router_of(registry)
        caplog.clear()
        call(router, "x.y", {}, caller)
    assert seen == [trace_id]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("apcore_mcp")]
    assert len(ours) == 3  # arguments, the failure, the end
    assert all(f"[trace_id={trace_id}]" in line for line in ours)


def test_arguments_are_logged_without_secrets(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """F-016, and redaction in logs."""
    with caplog.at_level(logging.DEBUG, "apcore_mcp"):
        call(router_of(registry, approval="allow"), "user.remove", WHO)
    assert "ann" in caplog.text
    assert "hunter2" not in caplog.text


def test_who_counts_calls_is_told_and_may_fail(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """F-022: calls, errors, latency by tool."""
    router = router_of(registry)
    ended: list[tuple[str, str]] = []

    def fail(*_: Any) -> None:
        raise RuntimeError("cannot count")

    router.on_call(fail)
    router.on_call(lambda entry, seconds, outcome: ended.append((entry.id, outcome)))
    call(router, "math.add", {"a": 1})
    call(router, "math.add", {})
    assert ended == [("math.add", "ok"), ("math.add", "error")]
    assert "cannot count" in caplog.text


def test_concurrent_calls_do_not_meet(registry: Registry) -> None:
    """F-003: isolated."""
    router = router_of(registry)

    async def many() -> list[CallToolResult]:
        names = ("math.add", "math.later")
        return await asyncio.gather(*(router.handle_call(names[n % 2], {"a": n, "b": 1}) for n in range(50)))

    results = asyncio.run(many())
    assert [result.structured_content for result in results] == [{"total": n + 1} for n in range(50)]


def test_a_module_that_was_replaced_is_called_by_its_new_rules(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    router = router_of(registry)
    call(router, "math.add", {"a": 1})
    registry.unregister("math.add")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    registry.register("math.add", kinds.Plain(lambda i, c: {"got": i}, input_schema=schema))
    router.catalogue.update("math.add")
    assert json.loads(call(router, "math.add").text) == {"got": {"n": 7}}


def test_keys_that_are_no_text_become_their_text() -> None:
    """apcore's redaction refuses them today; a module without an output schema may be given them by middleware."""
    assert to_json({1: 2, (1, 2): {3}, None: (float("nan"),)}) == (
        '{"1": 2, "(1, 2)": [3], "None": [null]}',
        ("None[0]",),
    )
    assert to_json(float("inf")) == ("null", ("the root",))


class Tone(Enum):
    COLD = "cold"


class Level(IntEnum):
    LOW = 1


class Weather(BaseModel):
    tone: Tone = Tone.COLD


@dataclass
class Reading:
    tone: Tone = Tone.COLD
    degrees: float = 1.5


class Named(msgspec.Struct, rename="camel"):
    full_name: str = "x"


JSON_VALUES: list[tuple[Any, Any]] = [
    (Tone.COLD, "cold"),
    (Level.LOW, 1),
    (datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (time(3, 4), "03:04:00"),
    (timedelta(seconds=5), "PT5S"),
    (Decimal("1.50"), "1.50"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/x"), "/x"),
    (b"ab", "YWI="),
    ({1}, [1]),
    (frozenset({Tone.COLD}), ["cold"]),
    (deque([1]), [1]),
    (MappingProxyType({"a": Tone.COLD}), {"a": "cold"}),
    (Weather(), {"tone": "cold"}),
    (Reading(), {"tone": "cold", "degrees": 1.5}),
    (Named(), {"fullName": "x"}),
    ({Tone.COLD: 1, Level.LOW: 2, date(2026, 1, 2): 3}, {"cold": 1, "1": 2, "2026-01-02": 3}),
    (Tone, str(Tone)),
    (ValueError("x"), "x"),
]


@pytest.mark.parametrize(("value", "expected"), JSON_VALUES, ids=lambda value: type(value).__name__)
def test_objects_are_written_by_their_json_values(value: Any, expected: Any) -> None:
    assert json.loads(to_json({"v": value})[0]) == {"v": expected}
    # Beside a value that JSON has no form for, which takes another path.
    text, odd = to_json({"v": value, "n": float("nan")})
    assert json.loads(text) == {"v": expected, "n": None}
    assert odd == ("n",)


def test_a_dataclass_is_looked_into_and_one_that_contains_itself_is_refused() -> None:
    assert to_json(Reading(degrees=float("nan"))) == ('{"tone": "cold", "degrees": null}', ("degrees",))
    endless = Reading()
    endless.tone = endless  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"contains itself|Circular"):
        to_json(endless)


def test_structured_output_fits_the_schema_of_its_own_module(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """Text and structure agree, and a client that checks the schema accepts them."""
    schema = Weather.model_json_schema(mode="serialization")
    module = kinds.Plain(lambda i, c: {"tone": Tone.COLD}, output_schema=Weather)
    registry.register("weather.tone", module)
    result = call(router_of(registry), "weather.tone")
    assert result.structured_content == json.loads(result.text) == {"tone": "cold"}
    assert ArgumentRules(schema).problems(result.structured_content) == []
