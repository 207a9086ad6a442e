"""Fixtures: apcore modules of every kind, registries and callers."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from apcore import Context, Executor, ModuleAnnotations, Registry
from pydantic import BaseModel, Field


class Numbers(BaseModel):
    a: int
    b: int = 2


class Total(BaseModel):
    total: int


class Add:
    """Adds two numbers."""

    input_schema = Numbers
    output_schema = Total
    description = "Add two numbers"
    documentation = "# Add\n\nAdds `a` and `b`."
    tags: ClassVar[list[str]] = ["math", "public"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"total": inputs["a"] + inputs["b"]}


class Nothing(BaseModel):
    pass


class Plain:
    """A module without declarations that calls a function."""

    description = "Calls a function"

    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        self._function = function
        self.input_schema: Any = {}
        self.output_schema: Any = {}
        for name, value in attributes.items():
            setattr(self, name, value)

    def execute(self, inputs: dict[str, Any], context: Context) -> Any:
        return self._function(inputs, context)


class Login(BaseModel):
    user: str
    password: str = Field(json_schema_extra={"x-sensitive": True})
    pin: int = Field(default=0, json_schema_extra={"x-sensitive": True})


class Remove:
    """Requires approval."""

    input_schema = Login
    output_schema = Nothing
    description = "Remove a user\nfor good"
    annotations = ModuleAnnotations(destructive=True, requires_approval=True)
    ran = 0

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        self.ran += 1
        return {}


class Words(BaseModel):
    text: str = ""
    parts: dict[str, Any] = {}


class Count:
    """Streams three chunks."""

    input_schema = Nothing
    output_schema = Words
    description = "Counts to three"
    annotations = ModuleAnnotations(streaming=True)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"text": "whole", "parts": {}}

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            yield {"text": str(number), "parts": {str(number): True}}


class Slow:
    """Runs until its token is cancelled. Has events for the start and for the cancellation."""

    input_schema = Nothing
    output_schema = Nothing
    description = "Waits"

    def __init__(self) -> None:
        self.started = threading.Event()
        self.was_cancelled = threading.Event()
        self.context: Context | None = None

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        self.context = context
        self.started.set()
        token = context.cancel_token
        assert token is not None
        for _ in range(3000):
            if token.is_cancelled:
                self.was_cancelled.set()
                return {}
            time.sleep(0.01)
        return {}


class Later:
    """A module with an async `execute`."""

    input_schema = Numbers
    output_schema = Total
    description = "Adds, later"

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"total": inputs["a"] + inputs.get("b", 0)}


class Caller:
    """A caller that records progress and elicitations and returns a fixed answer."""

    def __init__(self, meta: dict[str, Any] | None = None, answer: Any = None) -> None:
        self.meta = meta or {}
        self.is_cancelled = False
        self.principal = ""
        self.scopes: frozenset[str] = frozenset()
        self.progress_updates: list[tuple[float, str]] = []
        self.elicited: list[str] = []
        self._answer = answer

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        self.progress_updates.append((progress, message))

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Any:
        self.elicited.append(message)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return SimpleNamespace(is_accepted=self._answer)


@pytest.fixture
def kinds() -> SimpleNamespace:
    """The classes above."""
    names = (Add, Plain, Remove, Count, Slow, Later, Caller, Numbers, Total, Nothing, Login, Words)
    return SimpleNamespace(**{kind.__name__: kind for kind in names})


@pytest.fixture
def registry() -> Registry:
    """A registry with modules of different kinds."""
    registry = Registry()
    registry.register("math.add", Add())
    registry.register("math.later", Later())
    registry.register("text.count", Count())
    registry.register("user.remove", Remove())
    return registry


@pytest.fixture
def executor(registry: Registry) -> Executor:
    """The executor of that registry."""
    return Executor(registry)


@pytest.fixture
def descriptor() -> Callable[..., Any]:
    """Return a function that creates a descriptor with given schemas."""

    def make(
        input_schema: Any = None,
        output_schema: Any = None,
        *,
        module_id: str = "image.resize",
        **more: Any,
    ) -> SimpleNamespace:
        members = {"description": "", "annotations": None, "name": None, "documentation": None, **more}
        return SimpleNamespace(
            module_id=module_id, input_schema=input_schema or {}, output_schema=output_schema or {}, **members
        )

    return make


@pytest.fixture
def port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def listening() -> Callable[[int], bool]:
    """Return a function that waits until a local port accepts connections; False after two minutes."""

    def wait(at: int) -> bool:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", at)) == 0:
                    return True
            time.sleep(0.02)
        return False

    return wait
