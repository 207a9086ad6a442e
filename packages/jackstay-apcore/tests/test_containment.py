"""What a module raises to end a program ends its call: in a thread, in a coroutine, whoever made the executor."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Context, Executor, ModuleTimeoutError, Registry

from apcore_mcp.bridge import to_executor
from apcore_mcp.containment import ModuleEndedError, contain, contained
from apcore_mcp.server import ExecutionRouter


class Mine(BaseException):
    """Of an author who knows no better."""


@pytest.fixture
def failing(kinds: SimpleNamespace) -> Any:
    """Makes a coroutine module that raises this, hangs, or does neither."""

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
    [SystemExit(3), KeyboardInterrupt(), Mine("secret"), asyncio.CancelledError(), ValueError("secret")],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_coroutine_raises_ends_its_call_alone(
    registry: Registry, failing: Any, error: BaseException
) -> None:
    """F-003: a call never raises. One that cancels itself was not cancelled by the client, who waits for an answer."""
    registry.register("x.fail", failing(error))
    router = ExecutionRouter(to_executor(registry))

    async def main() -> list[str]:
        return [
            (await router.handle_call("x.fail", {})).text,
            (await router.handle_call("math.later", {"a": 1})).text,
        ]

    assert asyncio.run(main()) == ["Internal error occurred", '{"total": 3}']


def test_a_contained_module_is_the_module_in_all_else(registry: Registry, failing: Any) -> None:
    """Its output, its timeout, its own errors."""
    registry.register("x.well", failing())
    executor = contain(Executor(registry))
    assert asyncio.run(executor.call_async("x.well", {})) == {}
    registry.register("x.wrong", failing(ValueError("mine")))
    with pytest.raises(Exception, match="mine"):
        asyncio.run(executor.call_async("x.wrong", {}))
    registry.register("x.slow", failing(hangs=True))
    with pytest.raises(ModuleTimeoutError, match="10ms"):
        asyncio.run(executor.call_async("x.slow", {}))


def test_an_executor_that_is_passed_in_is_not_touched(registry: Registry) -> None:
    """F-014."""
    executor = Executor(registry)
    steps = list(executor.current_strategy.steps)
    assert to_executor(executor) is executor
    assert executor.current_strategy.steps == steps


def test_a_real_cancellation_and_an_end_of_the_generator_go_through() -> None:
    async def cancelled() -> None:
        with contained("x.y"):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(GeneratorExit), contained("x.y"):
            raise GeneratorExit
        with pytest.raises(ModuleEndedError, match=r"x\.y raised SystemExit"), contained("x.y"):
            raise SystemExit

    asyncio.run(main())


def test_a_stream_is_a_stream_and_what_ends_it_early_ends_its_call_alone(kinds: SimpleNamespace) -> None:
    """From Python 3.12 on apcore does not see through a wrapper: one around the module made every stream a single chunk."""

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
    assert asyncio.run(chunks(registry, "fine")) == [{"part": 1}, {"part": 2}]
    with pytest.raises(ModuleEndedError, match="ends raised SystemExit"):
        asyncio.run(chunks(registry, "ends"))
