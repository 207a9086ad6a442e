"""A program that serves some modules over stdio or, with `--port PORT`, over HTTP. The tests start it."""

import sys
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from apcore import Context, ModuleAnnotations, Registry
from pydantic import BaseModel, Field

from apcore_mcp import serve


class Numbers(BaseModel):
    a: int
    b: int = 2


class Total(BaseModel):
    total: int


class Nothing(BaseModel):
    pass


class Add:
    input_schema = Numbers
    output_schema = Total
    description = "Add two numbers"
    documentation = "Adds."

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        print("noise on stdout")
        return {"total": inputs["a"] + inputs["b"]}


class User(BaseModel):
    user: str
    password: str = Field(json_schema_extra={"x-sensitive": True})


class Remove:
    input_schema = User
    output_schema = Nothing
    description = "Remove a user"
    annotations = ModuleAnnotations(destructive=True, requires_approval=True)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {}


class Text(BaseModel):
    text: str = ""


class Count:
    input_schema = Nothing
    output_schema = Text
    description = "Counts"

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"text": "whole"}

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        for number in range(3):
            yield {"text": str(number)}


class Slow:
    """Has an event that `Status` waits for when its token is cancelled."""

    input_schema = Nothing
    output_schema = Nothing
    description = "Waits until it is cancelled"
    started = threading.Event()
    was_cancelled = threading.Event()

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        assert context.cancel_token is not None
        self.started.set()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if context.cancel_token.is_cancelled:
                self.was_cancelled.set()
                return {}
            time.sleep(0.01)
        return {}


class State(BaseModel):
    started: bool = False
    cancelled: bool = False


class Status:
    input_schema = State
    output_schema = State
    description = "Whether Slow has started and was cancelled; waits for the requested states"

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {
            "started": Slow.started.wait(20 if inputs["started"] else 0),
            "cancelled": Slow.was_cancelled.wait(20 if inputs["cancelled"] else 0),
        }


class Grow:
    """Registers another module on a thread."""

    input_schema = Nothing
    output_schema = Nothing
    description = "Adds a module"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        threading.Thread(target=self._registry.register, args=("grown.add", Add())).start()
        return {}


def make_registry() -> Registry:
    """Return a registry with the modules."""
    registry = Registry()
    registry.register("math.add", Add())
    registry.register("user.remove", Remove())
    registry.register("text.count", Count())
    registry.register("x.slow", Slow())
    registry.register("x.status", Status())
    registry.register("x.grow", Grow(registry))
    return registry


if __name__ == "__main__":
    if sys.argv[1:2] == ["--port"]:
        serve(make_registry(), dynamic=True, transport="sse", port=int(sys.argv[2]))
    else:
        serve(make_registry(), dynamic=True)
    sys.exit(0)
