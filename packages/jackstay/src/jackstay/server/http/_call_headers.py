"""Compare `Mcp-Param-*` headers of a tool call with its arguments.

A gateway may have acted on such a header, so a call with different arguments is refused before it runs (2026-07-28
basic/transports/streamable-http, "Custom Headers from Tool Parameters").
"""

from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.protocol.http import RequestRefused, check_param_headers, decode_header_value, mismatch_response
from jackstay.protocol.wire import Message, Request
from jackstay.server._driver import Caller
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from jackstay.server._server import Server


class _CallParams(msgspec.Struct):
    arguments: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read_call = msgspec.json.Decoder(_CallParams).decode
# Some clients send null for no arguments, and the tool runs: then a header has no counterpart.
_read_arguments = msgspec.json.Decoder(dict[str, Any] | None).decode


def check_call_headers(server: "Server", message: Message, caller: Caller) -> None:
    """Check that the `Mcp-Param-*` headers of a call match its arguments. Only for revisions with such headers.

    Raises: RequestRefused.
    """
    if type(message) is not Request or message.method != "tools/call":
        return
    # That the header and the body have the same name was checked before.
    name = caller.headers.get("mcp-name", "")
    name = decode_header_value(name) if name[:2] == "=?" else name
    rows = server._param_headers(name)
    if not rows or message.params is None:
        return
    try:
        call = _read_call(message.params)
        arguments = None if call.arguments is msgspec.UNSET else _read_arguments(call.arguments)
    except DECODE_ERRORS:
        return  # the dispatcher refuses invalid params with a better message
    mismatch = check_param_headers(rows, caller.headers, arguments)
    # The dispatcher refuses a tool that the caller may not see as unknown.
    if mismatch and (server._views is None or server._views.view_for(caller).find_tool(name) is not None):
        raise RequestRefused(mismatch_response(mismatch))
