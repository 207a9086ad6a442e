"""Containment of `SystemExit` and similar exceptions of modules: they end the call, not the process.

asyncio propagates such exceptions from a task to the event loop, and apcore runs coroutines in tasks. So they are
converted to errors around the whole call and, in executors that the bridge created, inside that task.
"""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apcore import BuiltinExecute, Executor  # type: ignore[import-untyped]  # apcore ships no types
from apcore.streaming import StreamingModule  # type: ignore[import-untyped]  # the same

if TYPE_CHECKING:
    from apcore import PipelineContext, StepResult


class ModuleEndedError(Exception):
    """A module raised an exception that would end the program, as `sys.exit()` does."""


@contextmanager
def contained(module_id: str) -> Iterator[None]:
    """Run code of a module. Raises: what it raises; ModuleEndedError instead of a BaseException."""
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise  # the call itself was cancelled
        raise ModuleEndedError(f"{module_id} raised {type(error).__name__}") from error


def contain(executor: Executor) -> Executor:
    """Make an executor contain coroutines as well, and return it. Only for executors that the bridge created."""
    executor.current_strategy.replace("execute", _Execute())
    return executor


class _Execute(BuiltinExecute):  # type: ignore[misc]  # apcore ships no types
    """The execution step of apcore, with containment inside the task that it creates."""

    async def execute(self, ctx: "PipelineContext") -> "StepResult":
        module = ctx.module
        # A stream is consumed by the caller, inside `contained()`. apcore must get the module itself there, because
        # since Python 3.12 `isinstance` with a protocol does not use `__getattr__`.
        is_streamed = ctx.stream and isinstance(module, StreamingModule)
        if is_streamed or module is None or not inspect.iscoroutinefunction(module.execute):
            return await super().execute(ctx)
        ctx.module = _Guarded(ctx.module_id, module)
        try:
            return await super().execute(ctx)
        finally:
            ctx.module = module


class _Guarded:
    """A proxy of a module whose `execute` is contained."""

    def __init__(self, module_id: str, module: Any) -> None:
        self._module_id = module_id
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    async def execute(self, inputs: Any, context: Any) -> Any:
        with contained(self._module_id):
            return await self._module.execute(inputs, context)


__all__ = ["ModuleEndedError", "contain", "contained"]
