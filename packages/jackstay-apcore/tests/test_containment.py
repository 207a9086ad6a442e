"""Containment of exceptions that would end the process."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Context, Executor, ModuleTimeoutError, Registry

from apcore_mcp.bridge import to_executor
from apcore_mcp.containment import ModuleEndedError, contain, contained
from apcore_mcp.server import ExecutionRouter


class CustomExit(BaseException):
    """A direct subclass of BaseException."""


@pytest.fixture
def failing(kinds: SimpleNamespace) -> Any:
    """A coroutine module that raises an error, hangs, or does neither."""

    class Failing(kinds.Later):  # type: ignore[misc, name-defined]  # a fixture's class
        input_schema = output_schema = kinds.Nothing

        def __init__(self, error: BaseException | None = None, *, hangs: bool = False) -> None:
            self._error = error
            self._hangs = hangs
            self.resources = {"timeout": 10 if hangs else 5000}

        async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
            await asyncio.sleep(30 if self._hangs else 0)
            if self._error is not None:
                raise self._error
            return {}

    return Failing


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), CustomExit("secret"), asyncio.CancelledError(), ValueError("secret")],
    ids=lambda error: type(error).__name__,
)
async def test_exceptions_of_coroutines_end_only_their_call(
    registry: Registry, failing: Any, error: BaseException
) -> None:
    """A call does not raise. A module that cancels itself gets an error result."""
    registry.register("x.fail", failing(error))
    router = ExecutionRouter(to_executor(registry))

    async def main() -> list[str]:
        return [
            (await router.handle_call("x.fail", {})).error_text,
            (await router.handle_call("math.later", {"a": 1})).text,
        ]

    assert await main() == ["Internal error occurred", '{"total": 3}']


async def test_contained_module_behaves_normally(registry: Registry, failing: Any) -> None:
    """Its output, its timeout and its errors."""
    registry.register("x.well", failing())
    executor = contain(Executor(registry))
    assert await executor.call_async("x.well", {}) == {}
    registry.register("x.wrong", failing(ValueError("bug")))
    with pytest.raises(Exception, match="bug"):
        await executor.call_async("x.wrong", {})
    registry.register("x.slow", failing(hangs=True))
    with pytest.raises(ModuleTimeoutError, match="10ms"):
        # On another event loop: apcore leaves the task of a module that timed out behind.
        await asyncio.to_thread(asyncio.run, executor.call_async("x.slow", {}))


def test_given_executor_is_not_changed(registry: Registry) -> None:
    executor = Executor(registry)
    steps = list(executor.current_strategy.steps)
    assert to_executor(executor) is executor
    assert executor.current_strategy.steps == steps


async def test_cancellation_and_generator_exit_pass_through() -> None:
    async def cancelled() -> None:
        with contained("x.y"):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(cancelled())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(GeneratorExit), contained("x.y"):
        raise GeneratorExit
    with pytest.raises(ModuleEndedError, match=r"x\.y raised SystemExit"), contained("x.y"):
        raise SystemExit


async def test_streams_are_contained(kinds: SimpleNamespace) -> None:
    """Since Python 3.12, a proxy around the module would hide its `stream` method from apcore."""

    class Streaming(kinds.Later):  # type: ignore[misc, name-defined]  # a fixture's class
        input_schema = output_schema = kinds.Nothing

        def __init__(self, error: BaseException | None = None) -> None:
            self._error = error

        async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
            return {"whole": True}

        async def stream(self, inputs: dict[str, Any], context: Context) -> Any:
            yield {"part": 1}
            if self._error is not None:
                raise self._error
            yield {"part": 2}

    async def chunks(registry: Registry, id: str) -> list[dict[str, Any]]:
        executor = contain(Executor(registry))
        with contained(id):
            return [chunk async for chunk in executor.stream(id, {})]

    registry = Registry()
    registry.register("fine", Streaming())
    registry.register("ends", Streaming(SystemExit(3)))
    assert await chunks(registry, "fine") == [{"part": 1}, {"part": 2}]
    with pytest.raises(ModuleEndedError, match="ends raised SystemExit"):
        await chunks(registry, "ends")
