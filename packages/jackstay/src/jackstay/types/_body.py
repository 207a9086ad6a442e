"""What every body of a message is: a frozen Struct that loses nothing of what the peer sent.

A body has a field for each member that some revision defines. Python names are snake_case, wire names camelCase,
`_meta` is `meta`. Three rules hold for all of them:

* A member without a field is kept beside the fields (`kept`), at every depth, and written again on encoding.
* `None` means: not there. An optional member that came as an explicit `null`, which no revision permits but some peers
  send, is `None` in Python too, is kept, and is written again as `null`. `body.has("title")` tells the two apart.
* Types that the schemas demand are checked; values are not. Enumerations are open (plain `str`) where an unknown value
  harms nothing: `Annotations.audience`, `CreateMessageResult.stopReason`, `includeContext`, `Icon.theme`, `cacheScope`,
  `ToolExecution.taskSupport`, the `format` of a string in a form, and the `type` of content and of a form's fields.
  They are closed where a program cannot go on without understanding: roles, logging levels, task states, a tool
  choice's mode, an elicitation's mode and action, `resultType`. Ranges (`priority`, `ttlMs`) are left to who uses them.

Must never know a method or a revision. Above: every other file here. Below: `_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec

from jackstay.errors import ProtocolError, UsageError
from jackstay.types._json import Kept, encode_json

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

if TYPE_CHECKING:
    # The other files take it from here, with the run-time one below.
    from jackstay.errors import Json as Json  # noqa: PLC0414 (an explicit re-export)

    # A member that may be left out: None in Python when it is.
    Maybe: TypeAlias = T | None
    # The same for one that is any JSON.
    MaybeJson: TypeAlias = Json
else:
    # msgspec reads annotations at run time and has no recursive types; to it, JSON is anything.
    Json = Any
    MaybeJson = bool | int | float | str | list | dict

    class Maybe:
        """To msgspec, `Maybe[str]` is `str`: the wire says a string or nothing, never null. See `_decode`."""

        def __class_getitem__(cls, item):
            return item


# The name of a request, as JSON-RPC gives it; also what a progress token is.
RequestId: TypeAlias = int | str
ProgressToken: TypeAlias = int | str

# An opaque place in a list; the empty string is a valid one.
Cursor: TypeAlias = str

# A JSON number. Not `float`: 1 and 1.0 come back as they were.
Number: TypeAlias = int | float

# A JSON object whose members nobody here reads.
JsonObject: TypeAlias = Mapping[str, Json]


# The name of `kept` to msgspec. It is never written; a peer's member of this name is kept like any other.
_KEPT = "*"


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

    # Nothing can be decoded into it: msgspec has no way to make a `Kept`, and `_decode` does not offer the field.
    kept: Maybe[Kept] = msgspec.field(default=None, name=_KEPT)

    @property
    def raw(self) -> dict[str, Json]:
        """The whole object as JSON, wire names, kept members included: a new copy at every call.

        Raises:
            ProtocolError: for a member that stayed in its bytes until now and cannot be decoded.
        """
        try:
            copy: dict[str, Json] = msgspec.json.decode(encode_json(self))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"the body cannot be decoded ({error})", path="$") from error
        return copy

    @property
    def unknown(self) -> dict[str, Json]:
        """The members that have no field here, and the optional ones that came as an explicit null."""
        return {} if self.kept is None else dict(self.kept.members)

    def has(self, member: str) -> bool:
        """True if the object has this member on the wire, by its wire name; also if it is null."""
        return member in self.raw


class BodyWithMeta(Body, frozen=True, kw_only=True):
    """A body with `_meta`: members that belong to the protocol, to extensions and to whoever else needs a place."""

    meta: Maybe[JsonObject] = msgspec.field(default=None, name="_meta")


B = TypeVar("B", bound=Body)


def with_members(body: B, members: Mapping[str, Json]) -> B:
    """The same body with more members, by wire name: a vendor's own, or an explicit null.

    Raises:
        UsageError: for a member that has a field here, unless it is null; set the field.
    """
    for name, value in members.items():
        if value is not None and name != _KEPT and name in body.__struct_encode_fields__:
            raise UsageError(f"{type(body).__name__} has a field for this member", path=name)
    return msgspec.structs.replace(body, kept=Kept({**body.unknown, **members}))


# Chooses a class for a decoded object; None: nothing fits.
Choose: TypeAlias = Callable[[dict[str, Json]], type[Body] | None]


class OneOf(msgspec.Struct, frozen=True):
    """Marks a member whose class depends on what is in it."""

    choose: Choose


class Unparsed(msgspec.Struct, frozen=True):
    """Marks a JSON object that stays in its bytes until somebody asks for it."""


def one_of(choose: Choose, usually: type[Body]) -> object:
    """An open union, as the run-time annotation of a member.

    Never a msgspec tag: an unknown or missing one would fail the whole message. msgspec sees one class, the usual one;
    when that does not fit, `_decode` asks `choose`. Both must agree on what does fit.
    """
    return Annotated[usually, OneOf(choose)]


def constant(value: Word) -> Word:
    """The value of a member that is always the same, such as the `type` of a content block.

    Not a default, because `omit_defaults` would leave it out. A factory that can tell how often it was asked, and does
    it in C: `_decode` must know whether a peer left the member out.
    """
    return msgspec.field(default_factory=repeat(value, 1 << 62).__next__)
