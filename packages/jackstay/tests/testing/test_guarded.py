"""Async tests of the suites run as plain functions, and are ended after a time limit."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jackstay.testing._guarded import guarded, run, with_two


@guarded
class Suite:
    def __init__(self) -> None:
        self.ran: list[str] = []

    async def test_one(self, name: str) -> None:
        """The docstring."""
        await asyncio.sleep(0)
        self.ran.append(name)

    async def prepare(self) -> None:
        """Not a test."""

    async def test_endless(self) -> None:
        await asyncio.Event().wait()


def test_a_guarded_test_is_a_plain_function_that_runs_it() -> None:
    suite: Any = Suite()
    suite.test_one("first")
    assert suite.ran == ["first"]
    assert not inspect.iscoroutinefunction(Suite.test_one)
    assert inspect.iscoroutinefunction(Suite.prepare), "it is not a test"
    assert (Suite.test_one.__name__, Suite.test_one.__doc__) == ("test_one", "The docstring.")


def test_a_guarded_test_is_ended_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 0.01)
    suite: Any = Suite()
    with pytest.raises(TimeoutError):
        suite.test_endless()


class TwoStores:
    def __init__(self) -> None:
        self.got: list[tuple[int, int]] = []

    def run(self, test: Callable[[int, int], Awaitable[None]]) -> None:
        run(lambda: self.opened(test))

    async def opened(self, test: Callable[[int, int], Awaitable[None]]) -> None:
        await test(1, 2)

    @with_two
    async def test_two(self, first: int, second: int) -> None:
        self.got.append((first, second))


def test_a_test_with_two_stores_takes_no_arguments() -> None:
    suite = TwoStores()
    suite.test_two()
    assert suite.got == [(1, 2)]
    assert list(inspect.signature(suite.test_two).parameters) == []
