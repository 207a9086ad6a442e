"""Compare `Mcp-Param-*` headers of a tool call with its arguments.

A gateway may have acted on such a header, so a call with different arguments is refused before it runs (2026-07-28
basic/transports/streamable-http, "Custom Headers from Tool Parameters").
"""

from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.protocol.http import ErrorResponse, check_param_headers, decode_header_value, mismatch_response
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


def check_call_headers(server: "Server", message: Message, caller: Caller) -> ErrorResponse | None:
    """Return the error response for a call whose `Mcp-Param-*` headers and arguments differ, else None.

    Call it for revisions with such headers only.
    """
    if type(message) is not Request or message.method != "tools/call":
        return None
    # That the header and the body have the same name was checked before.
    name = caller.headers.get("mcp-name", "")
    name = decode_header_value(name) if name[:2] == "=?" else name
    rows = server._param_headers(name)
    if not rows or message.params is None:
        return None
    try:
        call = _read_call(message.params)
        arguments = None if call.arguments is msgspec.UNSET else _read_arguments(call.arguments)
    except DECODE_ERRORS:
        return None  # the dispatcher refuses invalid params with a better message
    mismatch = check_param_headers(rows, caller.headers, arguments)
    if mismatch is None:
        return None
    if server._views is not None and server._views.view_for(caller).find_tool(name) is None:
        return None  # the dispatcher refuses it as unknown
    return mismatch_response(mismatch)
