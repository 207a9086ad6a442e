"""`Body`, the base of params, results and the objects inside them: a frozen Struct that preserves unknown members.

A body has a field for each member that some revision defines. Python names are snake_case, wire names camelCase, and
`_meta` is `meta`.
"""

# Three rules hold for all bodies:
#
# * A member without a field is kept in `extra`, at every depth, and written again on encoding.
# * `None` means absent. An optional member that is an explicit `null`, which no revision permits but some peers send,
# is
#   `None`, too, but is kept in `extra` and written again as `null`. `body.has("title")` distinguishes the two.
# * The types in the schemas are checked; values are not. Enumerations are open (plain `str`) where an unknown value
# does
#   no harm: `Annotations.audience`, `CreateMessageResult.stopReason`, `includeContext`, `Icon.theme`, `cacheScope`,
#   `ToolExecution.taskSupport`, the `format` of a string in a form, and the `type` of content and of a form's fields.
#   They are closed where a program cannot continue without understanding the value: roles, logging levels, task
#   statuses, a tool choice's mode, an elicitation's mode and action, `resultType`. Ranges (`priority`, `ttlMs`) are not
#   checked.

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

import msgspec

from jackstay.errors import ProtocolError, UsageError
from jackstay.types._json import DECODE_ERRORS, EXTRA, ExtraMembers, encode_json

__all__ = ["Json", "OnWire"]  # imported for type checkers, and re-exported

T = TypeVar("T")
Str = TypeVar("Str", bound=str)

if TYPE_CHECKING:
    # Other modules import these from here, together with the run-time definitions below.
    from typing import Annotated as OnWire

    from jackstay.errors import Json

    # An optional member: None if it is absent.
    Maybe: TypeAlias = T | None
else:
    # msgspec has no recursive types: JSON is `Any`.
    Json = Any

    class OnWire:
        """`OnWire[A, B, choose]` is `A` for type checkers, and `B` for msgspec, which reads annotations at run time.

        With `choose` it is an open union, but not a tagged union of msgspec, in which an unknown or missing tag would
        fail the whole message. If an object does not fit `B`, `_decode` calls `choose`. For objects that fit `B`,
        `choose` must return it.
        """

        def __class_getitem__(cls, item):
            _, default, *choose = item
            return Annotated[default, *choose] if choose else default

    class Maybe:
        """For msgspec, `Maybe[str]` is `str`: on the wire it is a string or absent, never null. See `_decode`."""

        def __class_getitem__(cls, item):
            return item


# An optional member that is any JSON.
MaybeJson: TypeAlias = OnWire[Json, bool | int | float | str | list | dict]

# JSON-RPC ids and progress tokens.
RequestId: TypeAlias = int | str
ProgressToken: TypeAlias = int | str

# An opaque position in a list; the empty string is valid.
Cursor: TypeAlias = str

# A JSON number. Not `float`, so that 1 and 1.0 stay distinct.
Number: TypeAlias = int | float

# A JSON object whose members are not interpreted here.
JsonObject: TypeAlias = Mapping[str, Json]


class Body(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    repr_omit_defaults=True,
    rename="camel",
):
    """The params or the result of a message, or an object inside one."""

    # Never decoded from the wire: msgspec cannot create `ExtraMembers`, and `_decode` skips the field.
    extra: Maybe[ExtraMembers] = msgspec.field(default=None, name=EXTRA)

    @property
    def raw(self) -> dict[str, Json]:
        """The complete object as JSON, with wire names and extra members. A new copy on every access.

        Raises:
            ProtocolError: a member that was not decoded so far is invalid.
        """
        try:
            copy: dict[str, Json] = msgspec.json.decode(encode_json(self))
        except DECODE_ERRORS as error:
            raise ProtocolError(f"cannot decode the body: {error}", path="$") from error
        return copy

    @property
    def unknown(self) -> dict[str, Json]:
        """The members without a field, and optional members that were an explicit null."""
        return {} if self.extra is None else dict(self.extra.members)

    def has(self, member: str) -> bool:
        """Return whether the object has this member, by its wire name, even if it is null."""
        return member in self.raw


# Keys of `_meta` that belong to the protocol (2026-07-28, basic/index; the last one 2025-11-25, basic/utilities/tasks).
META_PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS_TOKEN = "progressToken"  # noqa: S105  # a key, not a secret
META_RELATED_TASK = "io.modelcontextprotocol/related-task"

# The severities of RFC 5424, in ascending order. Closed.
LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOGGING_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)


class BodyWithMeta(Body, frozen=True, kw_only=True):
    """A body with `_meta`, an open map for the protocol, extensions and applications."""

    meta: Maybe[JsonObject] = msgspec.field(default=None, name="_meta")


B = TypeVar("B", bound=Body)


def with_members(body: B, members: Mapping[str, Json]) -> B:
    """Return a copy with additional members, by wire name: vendor members, or an explicit null.

    Raises:
        UsageError: a member has a field and is not null; set the field instead.
    """
    for name, value in members.items():
        if value is not None and name != EXTRA and name in body.__struct_encode_fields__:
            raise UsageError(f"{type(body).__name__} has a field for the member {name!r}; set the field", path=name)
    return msgspec.structs.replace(body, extra=ExtraMembers({**body.unknown, **members}))


# Chooses a class for a decoded object; None: no class fits.
Choose: TypeAlias = Callable[[dict[str, Json]], type[Body] | None]


def choose_by(member: str, union: object, otherwise: type[Body] | None = None) -> Choose:
    """Return a function that chooses the class of a union whose constant for `member` an object has."""

    @cache  # on first use, because it evaluates the annotations of all classes
    def classes() -> dict[str, type[Body]]:
        return {
            get_args(field.type)[0]: cls
            for cls in get_args(union)
            for field in msgspec.structs.fields(cls)
            if field.name == member and get_origin(field.type) is Literal
        }

    def choose(members: dict[str, Json]) -> type[Body] | None:
        value = members.get(member)
        return classes().get(value, otherwise) if isinstance(value, str) else otherwise

    return choose


def constant(value: Str) -> Str:
    """Return the field of a member with a constant value, such as the `type` of a content block.

    It is not a default, because `omit_defaults` would omit it, but a default factory that counts its calls, in C: from
    the count `_decode` finds out whether a peer omitted the member.
    """
    return msgspec.field(default_factory=repeat(value, 1 << 62).__next__)
