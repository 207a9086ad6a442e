"""What a module raises to end a program ends its call, and nothing else.

`sys.exit()` in a module is a mistake of that module, or of a library that thinks it is a command. asyncio lets such exceptions
through to the end of the process wherever a task of its own raised them, and apcore runs coroutines in such tasks. So they are
turned into an error where the module is called: around the whole call, and, in executors of our own making, inside that task.

Must never know what is served. Above: the router, `bridge`. Below: apcore's step that executes a module.
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
    """A module raised what is meant to end a program, as `sys.exit()` does."""


@contextmanager
def contained(module_id: str) -> Iterator[None]:
    """Around the author's code. Raises: what it raises; ModuleEndedError for what is no Exception."""
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise  # the call was cancelled, not only something in the module
        raise ModuleEndedError(f"{module_id} raised {type(error).__name__}") from error


def contain(executor: Executor) -> Executor:
    """The executor, which from now on contains coroutines as well. Only for one that is ours."""
    executor.current_strategy.replace("execute", _Execute())
    return executor


class _Execute(BuiltinExecute):  # type: ignore[misc]  # apcore ships no types
    """apcore's own step, with a coroutine guarded inside the task that it makes."""

    async def execute(self, ctx: "PipelineContext") -> "StepResult":
        module = ctx.module
        # A stream is read by whoever called, inside `contained()`; and apcore must see the module itself there, because
        # from Python 3.12 on a protocol is looked for in classes, and never through `__getattr__`.
        is_streamed = ctx.stream and isinstance(module, StreamingModule)
        if is_streamed or module is None or not inspect.iscoroutinefunction(module.execute):
            return await super().execute(ctx)
        ctx.module = _Guarded(ctx.module_id, module)
        try:
            return await super().execute(ctx)
        finally:
            ctx.module = module


class _Guarded:
    """A module with everything that it has; only what it raises is contained."""

    def __init__(self, module_id: str, module: Any) -> None:
        self._module_id = module_id
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    async def execute(self, inputs: Any, context: Any) -> Any:
        with contained(self._module_id):
            return await self._module.execute(inputs, context)


__all__ = ["ModuleEndedError", "contain", "contained"]
