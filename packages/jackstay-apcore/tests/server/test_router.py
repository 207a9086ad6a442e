"""Tool calls, from arguments to a result."""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from apcore import ACL, ACLRule, Context, Executor, ModuleError, ModuleTimeoutError, Registry
from pydantic import BaseModel

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.server import ExecutionRouter
from apcore_mcp.server.factory import to_tool
from apcore_mcp.server.router_json import to_json
from apcore_mcp.validation import ArgumentRules
from jackstay.types import CallToolResult


def router_of(registry: Registry, **options: Any) -> ExecutionRouter:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    return ExecutionRouter(Executor(registry), catalogue=catalogue, **options)


async def call(router: ExecutionRouter, name: str, arguments: Any = None, caller: Any = None) -> CallToolResult:
    return await router.handle_call(name, arguments, caller)


async def test_result_is_json_text_and_structured_content(registry: Registry) -> None:
    for name in ("math.add", "math-add"):
        result = await call(router_of(registry), name, {"a": 1, "b": 5})
        assert result.text == '{"total": 6}'
        assert result.structured_content == {"total": 6}
        assert result.is_error is None


async def test_defaults_are_filled_in(registry: Registry) -> None:
    """Pydantic defaults are not applied to inputs."""
    assert (await call(router_of(registry), "math.add", {"a": 1})).structured_content == {"total": 3}
    router = router_of(registry, fill_defaults=False)
    assert (await call(router, "math.add", {"a": 1})).error_text == "Internal error occurred"
    assert (await call(router, "math.later", {"a": 1})).structured_content == {"total": 1}


async def test_default_catalogue_is_the_whole_registry(executor: Executor) -> None:
    """A router without a catalogue serves every module."""
    assert (await call(ExecutionRouter(executor), "math.add", {"a": 1})).structured_content == {"total": 3}


def test_executor_type_is_checked(registry: Registry) -> None:
    with pytest.raises(TypeError, match="Executor, not Registry"):
        ExecutionRouter(registry)


async def test_module_outside_the_catalogue_is_not_found(registry: Registry, executor: Executor) -> None:
    """Filters also apply to calls."""
    catalogue = Catalogue(registry, prefix="text.")
    catalogue.refresh()
    router = ExecutionRouter(executor, catalogue=catalogue)
    assert (await call(router, "math.add", {"a": 1})).error_text == "Module not found: math.add"


async def test_unregistered_module_is_not_found(registry: Registry) -> None:
    router = router_of(registry)
    registry.unregister("math.add")
    assert (await call(router, "math.add", {"a": 1})).error_text == "Module not found: math.add"


INVALID_ARGUMENTS: list[tuple[Any, str]] = [
    ({}, "Input validation failed:\n- a: Field required (required)"),
    ({"a": "1"}, "Input validation failed:\n- a: must be integer (type)"),
    ({"a": None, "b": []}, "Input validation failed:\n- a: must be integer (type)\n- b: must be integer (type)"),
]


async def test_every_invalid_field_is_reported(registry: Registry) -> None:
    """apcore does not report the name of a missing field."""
    for validates in (False, True):
        router = router_of(registry, validate_inputs=validates)
        for arguments, text in INVALID_ARGUMENTS:
            result = await call(router, "math.add", arguments)
            assert (result.error_text, result.is_error) == (text, True), arguments


async def test_validation_happens_before_the_module_runs(registry: Registry, kinds: SimpleNamespace) -> None:
    """Unknown fields are reported where the schema forbids them."""
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    registry.register("x.y", kinds.Plain(lambda i, c: ran.append(i) or {}, input_schema=schema))
    router = router_of(registry, validate_inputs=True)
    assert (
        await call(router, "x.y", {"b": 1})
    ).error_text == "Input validation failed:\n- b: Unknown field (additionalProperties)"
    assert ran == []


class Even(BaseModel):
    number: int

    @classmethod
    def model_validate_json(cls, *args: Any, **keywords: Any) -> Any:
        from pydantic_core import PydanticCustomError, ValidationError

        raise ValidationError.from_exception_data(
            "Even", [{"type": PydanticCustomError("odd", "must be even"), "loc": ("number",), "input": 1}]
        )


async def test_errors_of_the_model_are_reported(registry: Registry, kinds: SimpleNamespace) -> None:
    """`ArgumentRules` finds nothing, so the message of apcore is used."""
    registry.register("x.y", kinds.Plain(lambda i, c: {}, input_schema=Even))
    assert "- number: must be even" in (await call(router_of(registry), "x.y", {"number": 1})).error_text


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"n": {"type": "integer"}}}, "model"])
async def test_invalid_output_is_a_module_error(registry: Registry, kinds: SimpleNamespace, schema: Any) -> None:
    schema = kinds.Total if schema == "model" else schema
    registry.register("x.y", kinds.Plain(lambda i, c: {"n": "x"}, output_schema=schema))
    assert (await call(router_of(registry), "x.y")).error_text == "Module error: SCHEMA_VALIDATION_ERROR"


async def test_invalid_input_of_a_nested_call_is_a_module_error(registry: Registry, kinds: SimpleNamespace) -> None:
    """The client cannot correct it."""

    class Calls(kinds.Plain):  # type: ignore[misc, name-defined]  # made by a fixture
        async def execute(self, inputs: Any, context: Any) -> Any:
            return await context.executor.call_async("math.add", {"a": "secret"}, context)

    registry.register("x.y", Calls(lambda i, c: {}))
    assert (await call(router_of(registry), "x.y")).error_text == "Module error: SCHEMA_VALIDATION_ERROR"


def raising(error: BaseException) -> Any:
    def function(inputs: Any, context: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("/secret/disk full"), "Internal error occurred"),
        (ModuleError(code="OUT_OF_STOCK", message=""), "Module error: OUT_OF_STOCK"),
        (ModuleTimeoutError(module_id="x.y", timeout_ms=5), "Module timed out after 5ms"),
    ],
)
async def test_exceptions_of_modules_are_not_shown(
    registry: Registry,
    kinds: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    text: str,
) -> None:
    """Messages of exceptions are only logged."""
    registry.register("x.y", kinds.Plain(raising(error)))
    result = await call(router_of(registry), "x.y")
    assert result.error_text == text
    assert result.is_error is True
    if isinstance(error, RuntimeError):
        assert "disk full" in caplog.text


async def test_acl_of_the_executor_applies(registry: Registry) -> None:
    """The message does not contain the reason."""
    acl = ACL(rules=[ACLRule(callers=["*"], targets=["math.add"], effect="deny")], default_effect="allow")
    executor = Executor(registry, acl=acl)
    assert (await call(ExecutionRouter(executor), "math.add", {"a": 1})).error_text == "Access denied"
    assert (await call(ExecutionRouter(executor), "math.later", {"a": 1})).is_error is None


async def test_principal_becomes_the_identity(registry: Registry, kinds: SimpleNamespace) -> None:
    seen: list[Any] = []
    registry.register("x.y", kinds.Plain(lambda i, c: seen.append(c.identity) or {}))
    caller = kinds.Caller()
    await call(router_of(registry), "x.y", {}, caller)
    caller.principal, caller.scopes = "ann", frozenset({"write", "read"})
    await call(router_of(registry), "x.y", {}, caller)
    assert seen[0] is None
    assert (seen[1].id, seen[1].roles) == ("ann", ("read", "write"))


# --- outputs ----------------------------------------------------------------------------------------------------------

IDENTIFIER = uuid.UUID(int=1)


OUTPUTS: list[tuple[Any, str]] = [
    ({"when": datetime(2026, 1, 2, 3, 4)}, '{"when": "2026-01-02 03:04:00"}'),
    ({"path": PurePosixPath("/a")}, '{"path": "/a"}'),
    ({"id": IDENTIFIER, "raw": b"x"}, f'{{"id": "{IDENTIFIER}", "raw": "eA=="}}'),
    ({"é": "ü"}, '{"é": "ü"}'),
    ({"half": "\ud800"}, '{"half": "?"}'),
]


async def test_outputs_are_encoded_as_json(registry: Registry, kinds: SimpleNamespace) -> None:
    values = iter([value for value, _ in OUTPUTS])
    registry.register("x.y", kinds.Plain(lambda i, c: next(values)))
    router = router_of(registry)
    for _, text in OUTPUTS:
        result = await call(router, "x.y")
        assert result.text == text
        assert result.structured_content is None  # without an output schema


async def test_none_output_is_an_empty_object(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("x.y", kinds.Plain(lambda i, c: None))
    assert (await call(router_of(registry), "x.y")).text == "{}"


async def test_none_from_a_custom_executor_is_an_empty_object(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = router_of(registry)

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(router._executor, "call_async", nothing)
    assert (await call(router, "math.add", {"a": 1})).structured_content == {}


class Ratio(BaseModel):
    ratio: float | None


class Strict(BaseModel):
    ratio: float
    rows: list[float] = []


async def test_nan_is_null_if_the_schema_allows_null(registry: Registry, kinds: SimpleNamespace) -> None:
    registry.register("x.y", kinds.Plain(lambda i, c: {"ratio": float("nan")}, output_schema=Ratio))
    result = await call(router_of(registry), "x.y")
    assert result.text == '{"ratio": null}'
    assert result.structured_content == {"ratio": None}


async def test_nan_is_an_error_if_the_schema_forbids_null(registry: Registry, kinds: SimpleNamespace) -> None:
    """A client would reject the structured content, so it gets the text and the reason."""
    value = {"ratio": 1.5, "rows": [0.5, float("inf")]}
    registry.register("x.y", kinds.Plain(lambda i, c: value, output_schema=Strict))
    result = await call(router_of(registry), "x.y")
    assert result.is_error is True
    assert result.structured_content is None
    assert result.error_text == (
        "The module ran, but its output cannot be encoded as JSON at rows[1] (replaced by null):\n"
        '{"ratio": 1.5, "rows": [0.5, null]}'
    )


class Secret(BaseModel):
    pin: int


async def test_sensitive_outputs_are_redacted(registry: Registry, kinds: SimpleNamespace) -> None:
    schema = {
        "type": "object",
        "properties": {"pin": {"type": "integer", "x-sensitive": True}, "author": {"type": "string"}},
    }
    output = {"pin": 1234, "author": "Ann", "_secret_note": "x"}
    registry.register("x.y", kinds.Plain(lambda i, c: output, output_schema=schema))
    result = await call(router_of(registry), "x.y")
    redacted = {"pin": "***REDACTED***", "author": "Ann", "_secret_note": "***REDACTED***"}
    assert (result.structured_content, json.loads(result.text)) == (redacted, redacted)
    router = ExecutionRouter(Executor(registry), redact_output=False)
    assert (await call(router, "x.y")).structured_content == output
    # A redacted result matches the published schema.
    entry = router.catalogue.find("x.y")
    assert entry is not None
    published = to_tool(entry).output_schema
    assert published is not None
    assert not ArgumentRules(published).problems(redacted)
    assert to_tool(entry, redacts=False).output_schema == entry.output_schema


@dataclass
class Account:
    pin: int


async def test_sensitive_values_inside_objects_are_redacted(registry: Registry, kinds: SimpleNamespace) -> None:
    account = {"properties": {"pin": {"x-sensitive": True}}}  # apcore checks the type of the object itself
    schema = {"type": "object", "properties": {"account": account}}
    registry.register("x.y", kinds.Plain(lambda i, c: {"account": Account(1234)}, output_schema=schema))
    result = await call(router_of(registry), "x.y")
    assert result.structured_content == {"account": {"pin": "***REDACTED***"}}
    assert "1234" not in result.text


async def test_sensitive_chunks_are_redacted(registry: Registry, kinds: SimpleNamespace) -> None:
    class Streaming:
        input_schema: ClassVar[dict[str, Any]] = {}
        output_schema: ClassVar[dict[str, Any]] = {
            "type": "object",
            "properties": {"pin": {"type": "integer", "x-sensitive": True}},
        }
        description = "Streams"

        async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
            yield {"pin": 1234}

        def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
            return {"pin": 1234}

    registry.register("x.stream", Streaming())
    caller = kinds.Caller(meta={"progressToken": 1})
    result = await router_of(registry).handle_call("x.stream", {}, caller)
    assert "1234" not in repr(caller.progress_updates) + repr(result)
    assert "REDACTED" in repr(caller.progress_updates)


async def test_results_have_the_trace_of_their_log_lines(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    registry.register("math.fail", kinds.Plain(raising(RuntimeError())))
    caplog.set_level(logging.INFO)
    for name in ("math.add", "math.fail"):
        caplog.clear()
        result = await call(router_of(registry), name, {"a": 1})
        trace_id = (result.meta or {})["traceparent"].split("-")[1]
        assert f"[trace_id={trace_id}]" in caplog.text


async def test_circular_output_is_an_error(registry: Registry, kinds: SimpleNamespace) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(ValueError, match="circular"):
        to_json(loop)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    registry.register("x.y", kinds.Plain(lambda i, c: {"deep": deep}))
    assert (await call(router_of(registry), "x.y")).error_text == "Internal error occurred"


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_chunks_are_progress_and_merged_into_the_result(registry: Registry, kinds: SimpleNamespace) -> None:
    """A progress token in the request enables streaming."""
    caller = kinds.Caller({"progressToken": 0})
    result = await call(router_of(registry), "text.count", {}, caller)
    assert [progress for progress, _ in caller.progress_updates] == [1, 2, 3]
    assert [json.loads(message) for _, message in caller.progress_updates] == [
        {"text": str(number), "parts": {str(number): True}} for number in range(3)
    ]
    assert result.structured_content == {"text": "2", "parts": {"0": True, "1": True, "2": True}}


async def test_no_streaming_without_progress_token(registry: Registry, kinds: SimpleNamespace) -> None:
    caller = kinds.Caller()
    result = await call(router_of(registry), "text.count", {}, caller)
    assert caller.progress_updates == []
    assert result.structured_content == {"text": "whole", "parts": {}}


async def test_an_ordinary_module_is_not_streamed(registry: Registry, kinds: SimpleNamespace) -> None:
    """A progress token has no effect."""
    caller = kinds.Caller({"progressToken": "t"})
    assert (await call(router_of(registry), "math.add", {"a": 1}, caller)).structured_content == {"total": 3}
    assert caller.progress_updates == []


async def test_chunks_are_merged_at_every_depth(registry: Registry, kinds: SimpleNamespace) -> None:
    """As in apcore: objects are merged, other values replaced."""
    chunks = [{"a": {"x": {"deep": 1}}}, {"a": {"x": {"more": 2}}}]

    class Streams(kinds.Plain):  # type: ignore[misc, name-defined]  # made by a fixture
        async def stream(self, inputs: Any, context: Any) -> Any:
            for chunk in chunks:
                yield chunk

    registry.register("x.y", Streams(lambda i, c: {}))
    caller = kinds.Caller({"progressToken": 1})
    result = await call(router_of(registry), "x.y", {}, caller)
    assert json.loads(result.text) == {"a": {"x": {"deep": 1, "more": 2}}}
    assert json.loads(caller.progress_updates[0][1]) == {"a": {"x": {"deep": 1}}}


# --- cancelling -------------------------------------------------------------------------------------------------------


async def test_cancellation_reaches_the_module(registry: Registry, kinds: SimpleNamespace) -> None:
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    ended: list[str] = []
    router = router_of(registry)
    router.on_call(lambda entry, seconds, outcome: ended.append(outcome))

    task = asyncio.ensure_future(router.handle_call("x.slow", {}))
    await asyncio.to_thread(slow.started.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(slow.was_cancelled.wait, 30)
    assert ended == ["cancelled"]


async def test_cancellation_of_the_request_sets_the_token(registry: Registry, kinds: SimpleNamespace) -> None:
    """A module in a thread can only poll its token."""
    slow = kinds.Slow()
    registry.register("x.slow", slow)
    caller = kinds.Caller()

    task = asyncio.ensure_future(router_of(registry).handle_call("x.slow", {}, caller))
    await asyncio.to_thread(slow.started.wait, 30)
    caller.is_cancelled = True
    assert (await task).text == "{}"
    assert slow.was_cancelled.is_set()


# --- approval ---------------------------------------------------------------------------------------------------------

USER = {"user": "ann", "password": "hunter2", "pin": 1234}


@pytest.mark.parametrize(("answer", "runs"), [(True, 1), (False, 0), ("yes", 0), (RuntimeError("gone"), 0)])
async def test_module_runs_only_with_approval(
    registry: Registry, kinds: SimpleNamespace, answer: Any, runs: int
) -> None:
    """The prompt contains no secrets."""
    caller = kinds.Caller(answer=answer)
    result = await call(router_of(registry), "user.remove", USER, caller)
    assert registry.get("user.remove").ran == runs
    assert (result.is_error is True) is (runs == 0)
    (elicited,) = caller.elicited
    assert "ann" in elicited
    assert "hunter2" not in elicited
    assert "1234" not in elicited


async def test_module_does_not_run_without_a_caller(registry: Registry) -> None:
    result = await call(router_of(registry), "user.remove", USER)
    assert result.error_text.startswith("Approval required: user.remove")
    assert registry.get("user.remove").ran == 0


async def test_approval_allow(registry: Registry) -> None:
    assert (await call(router_of(registry, approval="allow"), "user.remove", USER)).is_error is None


async def test_approval_handler_of_the_executor_is_used(registry: Registry, kinds: SimpleNamespace) -> None:
    from apcore import AlwaysDenyHandler

    caller = kinds.Caller(answer=True)
    router = ExecutionRouter(Executor(registry, approval_handler=AlwaysDenyHandler()))
    assert (await call(router, "user.remove", USER, caller)).error_text == "Module error: APPROVAL_DENIED"
    assert caller.elicited == []


async def test_invalid_arguments_are_rejected_before_approval(registry: Registry, kinds: SimpleNamespace) -> None:
    caller = kinds.Caller(answer=True)
    await call(router_of(registry, validate_inputs=True), "user.remove", {"user": 1}, caller)
    assert caller.elicited == []


# --- trace ids and logs -----------------------------------------------------------------------------------------------


async def test_trace_of_the_client_is_used(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """`traceparent` in `_meta` is the parent; the id is in every log line of the call."""
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
        await call(router, "x.y", {}, caller)
    assert seen == [trace_id]
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("apcore_mcp")]
    assert len(lines) == 3  # arguments, failure, end
    assert all(f"[trace_id={trace_id}]" in line for line in lines)


async def test_arguments_are_logged_without_secrets(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "apcore_mcp"):
        await call(router_of(registry, approval="allow"), "user.remove", USER)
    assert "ann" in caplog.text
    assert "hunter2" not in caplog.text


async def test_call_listeners_may_fail(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    router = router_of(registry)
    ended: list[tuple[str, str]] = []

    def fail(*_: Any) -> None:
        raise RuntimeError("cannot count")

    router.on_call(fail)
    router.on_call(lambda entry, seconds, outcome: ended.append((entry.id, outcome)))
    await call(router, "math.add", {"a": 1})
    await call(router, "math.add", {})
    assert ended == [("math.add", "ok"), ("math.add", "error")]
    assert "cannot count" in caplog.text


async def test_concurrent_calls_are_isolated(registry: Registry) -> None:
    router = router_of(registry)

    names = ("math.add", "math.later")
    results = await asyncio.gather(*(router.handle_call(names[n % 2], {"a": n, "b": 1}) for n in range(50)))
    assert [result.structured_content for result in results] == [{"total": n + 1} for n in range(50)]


async def test_replaced_module_uses_its_new_schema(registry: Registry, kinds: SimpleNamespace) -> None:
    router = router_of(registry)
    await call(router, "math.add", {"a": 1})
    registry.unregister("math.add")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    registry.register("math.add", kinds.Plain(lambda i, c: {"got": i}, input_schema=schema))
    router.catalogue.update("math.add")
    assert json.loads((await call(router, "math.add")).text) == {"got": {"n": 7}}


def test_validation_without_a_call(registry: Registry) -> None:
    executor = Executor(registry)
    try:
        router = ExecutionRouter(executor)
        assert router.validate_tool("math-add", {"a": 1, "b": 2})["valid"] is True
        assert router.validate_tool("no.such", {})["valid"] is False
    finally:
        executor.close()


async def test_trace_formats_and_denial(registry: Registry, kinds: SimpleNamespace) -> None:
    traced = await ExecutionRouter(Executor(registry), trace=True).handle_call("math.add", {"a": 1})
    steps = json.loads(traced.content[1].text)
    assert (traced.structured_content, steps["strategy_name"]) == ({"total": 3}, "standard")
    assert "execute" in [step["name"] for step in steps["steps"]]
    formatted = ExecutionRouter(Executor(registry), output_format="csv")
    assert (await formatted.handle_call("math.add", {"a": 1})).text == "total\r\n3\r\n"
    denying = ExecutionRouter(Executor(registry, strategy="minimal"), approval="deny")
    denied = await denying.handle_call("user.remove", {"user": "a", "password": "b"}, kinds.Caller(answer=True))
    assert (denied.is_error, denied.error_text.startswith("Approval denied: user.remove was not run")) == (True, True)
