"""The principal of a request, and of a connection."""

from jackstay.server import Server
from jackstay.server._driver import Caller
from jackstay.server.http import ANONYMOUS, Principal
from jackstay.server.http._principal import set_principal

HTTP = "POST", "/mcp", "127.0.0.1"


def test_anonymous_has_no_id_and_no_scopes() -> None:
    assert Principal("", frozenset(), {}) == ANONYMOUS


async def test_set_principal_replaces_the_caller_of_a_connection() -> None:
    server = Server("x")
    connection = server._open_connection()
    assert connection.caller == Caller("", None, {})
    set_principal(connection, Principal("alice", frozenset({"a"}), {"sub": "alice"}), {}, HTTP)
    assert connection.caller == Caller("alice", frozenset({"a"}), {"sub": "alice"}, {}, HTTP)
    assert connection.principal == "alice"
    set_principal(connection, ANONYMOUS, {}, HTTP)
    assert connection.caller == Caller("", frozenset(), {}, {}, HTTP)
