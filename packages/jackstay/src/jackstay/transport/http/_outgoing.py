"""What a frame that leaves is about: as much of it as HTTP must know, and not a member more.

A request says in headers which revision it is of, which method it is and what it is about; a cancellation names the
request whose response is then closed. Everything else in a frame is its receiver's business.

Must never know a response. Above: `_transport`. Below: `jackstay.protocol.http`, which writes the headers.
"""

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
    # `Any` where a user may have put something else than the specification has: the server will say so better.
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    name: Any = None
    uri: Any = None
    taskId: Any = None  # noqa: N815  # the protocol's own name, which `mirrored_name` asks for
    requestId: Any = None  # noqa: N815  # as above


class _Frame(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: _Params | None = None


class _Arguments(msgspec.Struct):
    arguments: Any = None


class _Call(msgspec.Struct):
    params: _Arguments | None = None


_read = msgspec.json.Decoder(_Frame).decode
_read_call = msgspec.json.Decoder(_Call).decode

_NEGOTIATING = {"server/discover": Sent.PROBE, "initialize": Sent.INITIALIZE}


class Outgoing(msgspec.Struct, frozen=True):
    """One frame. `id` is set where it is a request of ours; `version` is the one that it says of itself."""

    frame: bytes
    method: str
    id: int | None = None
    name: str | None = None
    version: str | None = None
    cancels: int | None = None

    @property
    def is_request(self) -> bool:
        """Whether an answer comes back."""
        return self.id is not None

    @property
    def stands(self) -> bool:
        """Whether its response stays open for as long as the subscription does."""
        return self.method == "subscriptions/listen"

    def kind(self, has_agreed: bool) -> Sent:
        """What its response will be judged as; `has_agreed`: era and revision are known already."""
        if self.id is None:
            return Sent.NOTICE
        if self.method == "initialize" or not has_agreed:
            return _NEGOTIATING.get(self.method, Sent.REQUEST)
        return Sent.REQUEST

    def revision(self, agreed: Revision | None) -> Revision | None:
        """The revision that its headers name: what the body says, else the one agreed on; none for `initialize`."""
        if self.version is not None:
            return REVISIONS.get(self.version, agreed)
        return None if self.method == "initialize" else agreed

    def param_headers(self, rows: Sequence[ParamHeader]) -> tuple[tuple[str, str], ...]:
        """The `Mcp-Param-*` headers of a call. Raises: UsageError for an argument that cannot be said in one."""
        if not rows:
            return ()
        call = _read_call(self.frame)
        arguments = None if call.params is None else call.params.arguments
        return build_param_headers(rows, arguments if isinstance(arguments, dict) else None)


def read_outgoing(frame: bytes) -> Outgoing:
    """What this frame of ours is about. Raises: UsageError for one that is no JSON-RPC message."""
    try:
        read = _read(frame)
    except msgspec.DecodeError as error:
        raise UsageError(f"only JSON-RPC messages can be sent over HTTP ({error})") from error
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
