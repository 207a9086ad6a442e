"""Parses outgoing frames as far as HTTP headers and cancellation need them: revision, method, name, cancelled id."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol import REVISIONS, Revision
from jackstay.protocol.http import ParamHeader, Sent, build_param_headers, mirrored_name
from jackstay.types import META_PROTOCOL_VERSION


class _Meta(msgspec.Struct):
    version: Any = msgspec.field(name=META_PROTOCOL_VERSION, default=None)


class _Params(msgspec.Struct):
    # `Any`: a user may pass other types than the specification defines, and the server reports that better.
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    name: Any = None
    uri: Any = None
    taskId: Any = None  # noqa: N815  # the wire name, which `mirrored_name` uses
    requestId: Any = None  # noqa: N815  # as above


class _Frame(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: _Params | None = None


_read = msgspec.json.Decoder(_Frame).decode
_read_any = msgspec.json.Decoder(dict[str, Any]).decode

_NEGOTIATING = {"server/discover": Sent.PROBE, "initialize": Sent.INITIALIZE}


class Outgoing(msgspec.Struct, frozen=True):
    """One outgoing frame. `id` is set if it is a request; `version` is the revision in its `_meta`."""

    frame: bytes
    method: str
    id: int | None = None
    name: str | None = None
    version: str | None = None
    cancels: int | None = None

    @property
    def is_long_lived(self) -> bool:
        """Whether its response stays open as long as the subscription."""
        return self.method == "subscriptions/listen"

    def kind(self, has_agreed: bool) -> Sent:
        """Return how its HTTP response is interpreted; `has_agreed`: era and revision are negotiated."""
        if self.id is None:
            return Sent.NOTIFICATION
        if self.method == "initialize" or not has_agreed:
            return _NEGOTIATING.get(self.method, Sent.REQUEST)
        return Sent.REQUEST

    def revision(self, agreed: Revision | None) -> Revision | None:
        """Return the revision for its headers: that of its body, or the negotiated one; None for `initialize`."""
        if self.version is not None:
            return REVISIONS.get(self.version, agreed)
        return None if self.method == "initialize" else agreed

    def param_headers(self, rows: Sequence[ParamHeader]) -> tuple[tuple[str, str], ...]:
        """Return the `Mcp-Param-*` headers of a call. Raises: UsageError for an argument that no header can contain."""
        if not rows:
            return ()
        params = _read_any(self.frame).get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return build_param_headers(rows, arguments if isinstance(arguments, dict) else None)


def read_outgoing(frame: bytes) -> Outgoing:
    """Parse an outgoing frame. Raises: UsageError if it is not a JSON-RPC message."""
    try:
        read = _read(frame)
    except msgspec.DecodeError as error:
        raise UsageError(f"not a JSON-RPC message: {error}") from error
    params = read.params
    if not read.method or params is None:
        return Outgoing(frame, read.method, read.id if read.method and isinstance(read.id, int) else None)
    version = None if params.meta is None else params.meta.version
    cancels = params.requestId if read.method == "notifications/cancelled" else None
    return Outgoing(
        frame,
        read.method,
        read.id if isinstance(read.id, int) else None,
        mirrored_name(read.method, {"name": params.name, "uri": params.uri, "taskId": params.taskId}),
        version if isinstance(version, str) else None,
        cancels if isinstance(cancels, int) else None,
    )
