"""Whom a request comes from: what is put on a connection, and who nobody is."""

import asyncio

from jackstay.server import Server
from jackstay.server._driver import Caller
from jackstay.server.http import NOBODY, Principal
from jackstay.server.http._principal import prove


def test_nobody_has_no_name_and_may_do_nothing() -> None:
    assert Principal("", frozenset(), {}) == NOBODY


def test_a_connection_knows_its_caller_until_the_next_one() -> None:
    async def test() -> None:
        server = Server("x")
        connection = server.open_connection()
        assert connection.caller == Caller("", None, {})
        prove(connection, Principal("alice", frozenset({"a"}), {"sub": "alice"}))
        assert connection.caller == Caller("alice", frozenset({"a"}), {"sub": "alice"})
        assert connection.principal == "alice"
        prove(connection, NOBODY)
        assert connection.caller == Caller("", frozenset())

    asyncio.run(test())
