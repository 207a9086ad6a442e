"""Tests of the suites: coroutines that run on a new event loop, each with a time limit."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The time limit of a test; a busy machine may take a second to start a process.
GUARD_SECONDS = 20.0


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run one test on a new loop, with the time limit."""

    async def limited() -> None:
        async with asyncio.timeout(GUARD_SECONDS):
            await test()

    asyncio.run(limited())


def guarded(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Decorate an async test, so that any test runner can call it like a plain function."""

    @functools.wraps(test)
    def run_test(*args: P.args, **named: P.kwargs) -> None:
        run(functools.partial(test, *args, **named))

    return run_test


def with_two(test: Callable[[Any, T, T], Awaitable[None]]) -> Callable[[Any], None]:
    """Decorate an async test of a suite whose method `run()` passes it two stores with the same data."""

    @functools.wraps(test)
    def run_test(suite: Any) -> None:
        suite.run(functools.partial(test, suite))

    del run_test.__wrapped__  # pytest would take its parameters for names of fixtures
    return run_test
