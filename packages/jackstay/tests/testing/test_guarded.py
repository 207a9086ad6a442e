"""Async tests of the suites run as plain functions, and are ended after a time limit."""

import asyncio

import pytest

from jackstay.testing._guarded import guarded


class Suite:
    def __init__(self) -> None:
        self.ran: list[str] = []

    @guarded
    async def test_one(self, name: str) -> None:
        """The docstring."""
        await asyncio.sleep(0)
        self.ran.append(name)

    @guarded
    async def test_endless(self) -> None:
        await asyncio.Event().wait()


def test_a_guarded_test_is_a_plain_function_that_runs_it() -> None:
    suite = Suite()
    suite.test_one("first")
    assert suite.ran == ["first"]
    assert (Suite.test_one.__name__, Suite.test_one.__doc__) == ("test_one", "The docstring.")


def test_a_guarded_test_is_ended_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.testing._guarded.GUARD_SECONDS", 0.01)
    with pytest.raises(TimeoutError):
        Suite().test_endless()
