"""What the tests of the bridge share: modules of every kind, written as their authors write them, on the real apcore."""

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
    """Declares nothing, and calls whatever it was made with."""

    description = "Does what it was told"

    def __init__(self, does: Callable[..., Any], **attributes: Any) -> None:
        self._does = does
        self.input_schema: Any = {}
        self.output_schema: Any = {}
        for name, value in attributes.items():
            setattr(self, name, value)

    def execute(self, inputs: dict[str, Any], context: Context) -> Any:
        return self._does(inputs, context)


class Login(BaseModel):
    user: str
    password: str = Field(json_schema_extra={"x-sensitive": True})
    pin: int = Field(default=0, json_schema_extra={"x-sensitive": True})


class Remove:
    """Asks for a person's consent."""

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
    """Streams: three chunks that are merged."""

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
    """Runs until it is told to stop by its token; says when it began and when it was told."""

    input_schema = Nothing
    output_schema = Nothing
    description = "Waits"

    def __init__(self) -> None:
        self.began = threading.Event()
        self.was_told = threading.Event()
        self.context: Context | None = None

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        self.context = context
        self.began.set()
        token = context.cancel_token
        assert token is not None
        for _ in range(3000):
            if token.is_cancelled:
                self.was_told.set()
                return {}
            time.sleep(0.01)
        return {}


class Later:
    """An async module."""

    input_schema = Numbers
    output_schema = Total
    description = "Adds, later"

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"total": inputs["a"] + inputs.get("b", 0)}


class Caller:
    """Whom a call is for, in tests: says what it is told, and hears what it is asked."""

    def __init__(self, meta: dict[str, Any] | None = None, answer: Any = None) -> None:
        self.meta = meta or {}
        self.is_cancelled = False
        self.principal = ""
        self.scopes: frozenset[str] = frozenset()
        self.heard: list[tuple[float, str]] = []
        self.asked: list[str] = []
        self._answer = answer

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        self.heard.append((progress, message))

    async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Any:
        self.asked.append(message)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return SimpleNamespace(is_accepted=self._answer)


@pytest.fixture
def kinds() -> SimpleNamespace:
    """The classes above, for tests that make their own."""
    names = (Add, Plain, Remove, Count, Slow, Later, Caller, Numbers, Total, Nothing, Login, Words)
    return SimpleNamespace(**{kind.__name__: kind for kind in names})


@pytest.fixture
def registry() -> Registry:
    """A few modules, each of another kind."""
    made = Registry()
    made.register("math.add", Add())
    made.register("math.later", Later())
    made.register("text.count", Count())
    made.register("user.remove", Remove())
    return made


@pytest.fixture
def executor(registry: Registry) -> Executor:
    """The executor of that registry."""
    return Executor(registry)


@pytest.fixture
def descriptor() -> Callable[..., Any]:
    """Makes a descriptor with these schemas."""

    def make(
        input_schema: Any = None,
        output_schema: Any = None,
        *,
        module_id: str = "image.resize",
        **more: Any,
    ) -> SimpleNamespace:
        said = {"description": "", "annotations": None, "name": None, "documentation": None, **more}
        return SimpleNamespace(
            module_id=module_id, input_schema=input_schema or {}, output_schema=output_schema or {}, **said
        )

    return make


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        found: int = one.getsockname()[1]
        return found


@pytest.fixture
def listening() -> Callable[[int], bool]:
    """Waits until somebody listens at a port of this machine; False if nobody does for twenty seconds."""

    def wait(at: int) -> bool:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", at)) == 0:
                    return True
            time.sleep(0.02)
        return False

    return wait
