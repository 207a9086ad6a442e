"""Starts coroutines without creating a task for each: most handlers return without waiting for anything.

The first step of a coroutine runs at once, while `asyncio.current_task()` is a task that was created before and waits.
If the coroutine returns in this step, the task keeps waiting and serves the next one. Otherwise the task belongs to
the coroutine from then on, and runs its remaining steps.
"""

# A coroutine sees what it would see in a task of its own: `current_task()` is the same task in all its steps, so
# `asyncio.timeout()`, `TaskGroup` and cancellation work; context variables are isolated, because each coroutine has its
# own copy of the context. The difference is that coroutines which return in their first step share a task. Therefore a
# task that was cancelled, or got a callback, in such a step is not used again.

import asyncio
import types
from asyncio import _enter_task, _leave_task  # documented in "Extending asyncio"
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Final, TypeAlias

Work: TypeAlias = Coroutine[Any, Any, bytes]

# What a started coroutine returned or raised, or what it awaits: a future or None.
Step: TypeAlias = "bytes | BaseException | asyncio.Future[Any] | str | None"
NOT_STARTED: Final = "not started"

_Steps: TypeAlias = Generator[Step, Any, None]


class ParkedTask:
    """A task that waits for a coroutine that was started in its name."""

    __slots__ = ("_context", "_has_started", "_loop", "_rest", "_send", "_steps", "_wake_up", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._has_started = False
        self._steps = _run_each()
        self._send = self._steps.send
        self._send(None)
        self._context: Context | None = None
        self._rest: Coroutine[Any, Any, object] | None = None
        self._wake_up: asyncio.Future[None] = loop.create_future()
        self.task = asyncio.Task(self._run(), loop=loop)

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {'spent' if self.is_spent else 'waiting'}>"

    @property
    def is_spent(self) -> bool:
        """True if the task cannot be used for another coroutine."""
        return self._wake_up.done() or bool(self.task._callbacks)

    def start(self, work: Work) -> Step:
        """Run the first step of a coroutine, in a copy of the current context.

        Returns its result or its exception; or what it awaits, then call `assign()`; or NOT_STARTED if this task does
        not wait, or if another task runs.
        """
        loop, task = self._loop, self.task
        if not self._has_started or self._wake_up.done() or task._callbacks:
            return NOT_STARTED
        try:
            _enter_task(loop, task)
        except RuntimeError:
            return NOT_STARTED
        self._context = context = copy_context()
        try:
            return context.run(self._send, work)
        except BaseException:
            self.discard()
            raise
        finally:
            _leave_task(loop, task)

    async def remaining_steps(self, awaited: Step) -> bytes:
        """Run the rest of the started coroutine, every step in the same context. Returns its result."""
        assert self._context is not None
        return await _continue(self._steps, self._context, awaited)

    def assign(self, rest: Coroutine[Any, Any, object]) -> None:
        """Run this in the task: a coroutine that awaits `remaining_steps()`."""
        self._rest = rest
        if not self._wake_up.done():  # the first step may have cancelled the task
            self._wake_up.set_result(None)

    def discard(self) -> None:
        """End the task if it waits."""
        self._wake_up.cancel()

    async def _run(self) -> None:
        self._has_started = True
        try:
            await self._wake_up
        except asyncio.CancelledError as error:
            if self._rest is None:
                return
            # Cancelled since the first step. Repeat it, so that the coroutine is cancelled where it waits.
            self.task.uncancel()
            self.task.cancel(*error.args)
        assert self._rest is not None
        await self._rest


@types.coroutine
def _run_each() -> _Steps:
    """Run the coroutines that are sent, one after the other, and yield their results and exceptions.

    A generator, because a coroutine that returns inside `yield from` raises no StopIteration, which would take longer
    than everything else here.
    """
    work: Any = yield None
    while True:
        try:
            work = yield (yield from work)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # yielded
            work = _return(error)


async def _return(error: BaseException) -> BaseException:
    return error


@types.coroutine
def _continue(steps: _Steps, context: Context, awaited: Step) -> Generator[Step, Any, bytes]:
    while not isinstance(awaited, bytes):
        if isinstance(awaited, BaseException):
            raise awaited
        try:
            value = yield awaited
        except BaseException as error:  # noqa: BLE001  # the coroutine handles it
            awaited = context.run(steps.throw, error)
        else:
            awaited = context.run(steps.send, value)
    return awaited
