"""Tests of the suites: coroutines that run on a new event loop, each with a time limit."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# The time limit of a test; a busy machine may take a second to start a process.
GUARD_SECONDS = 20.0


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run one test on a new loop, with the time limit."""
    asyncio.run(asyncio.wait_for(test(), GUARD_SECONDS))


def guarded(suite: type[T]) -> type[T]:
    """Decorate a suite: its async tests become plain functions, which any test runner can call, with the time limit."""
    for name, test in list(vars(suite).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            setattr(suite, name, _guarded(test))
    return suite


def _guarded(test: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run_test(*args: object, **named: object) -> None:
        run(functools.partial(test, *args, **named))

    return run_test


def with_two(test: Callable[[Any, T, T], Awaitable[None]]) -> Callable[[Any], None]:
    """Decorate an async test of a suite whose method `run()` passes it two stores with the same data."""

    @functools.wraps(test)
    def run_test(suite: Any) -> None:
        suite.run(functools.partial(test, suite))

    del run_test.__wrapped__  # pytest would take its parameters for names of fixtures
    return run_test
