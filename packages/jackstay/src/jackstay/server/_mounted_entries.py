"""Tools, resources and prompts in the catalogue of a server that another server serves.

Their list items are those of the other server, with another name or URI; unknown members are kept. They are never
called here: `Mounts` forwards the requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw

from jackstay.errors import ProtocolError, UsageError
from jackstay.server._catalogue import Kind
from jackstay.server._entries import Entry
from jackstay.server._prompts import PromptEntry
from jackstay.server._resources import ResourceEntry, ResourceOptions
from jackstay.server._tools import ToolEntry
from jackstay.server._uris import UriTemplate
from jackstay.types import DECODE_ERRORS, Prompt, Resource, ResourceTemplate, Tool, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jackstay.protocol.http import ParamHeader
    from jackstay.protocol.server import events as e

Members: TypeAlias = dict[str, Raw]

# The member of a list item that identifies it.
KEYS: Mapping[Kind, str] = {
    Kind.TOOLS: "name",
    Kind.RESOURCES: "uri",
    Kind.TEMPLATES: "uriTemplate",
    Kind.PROMPTS: "name",
}

read_members = msgspec.json.Decoder(Members).decode
_read_text = msgspec.json.Decoder(str).decode


class MountedTool(ToolEntry, frozen=True, kw_only=True):
    """A tool of a mounted server, which calls it `original`. `mount` is None in the catalogue of a proxy itself.

    `source` is the entry of the mounted server.
    """

    mount: Any = None
    original: str = ""
    source: Entry | None = None


class MountedResource(ResourceEntry, frozen=True, kw_only=True):
    """A resource or a template of a mounted server; as `MountedTool`."""

    mount: Any = None
    original: str = ""
    source: Entry | None = None


class MountedPrompt(PromptEntry, frozen=True, kw_only=True):
    """A prompt of a mounted server; as `MountedTool`."""

    mount: Any = None
    original: str = ""
    source: Entry | None = None


Mounted: TypeAlias = MountedTool | MountedResource | MountedPrompt


class AnyUri(UriTemplate):
    """A template with expressions that this server cannot match. Its URIs are found by their prefix only."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables = ()

    def match(self, uri: str) -> None:  # noqa: ARG002  # the parameter of the base class
        """Match nothing."""
        return


def read_key(kind: Kind, item: bytes | Raw) -> tuple[str, Members]:
    """Return the name or URI of a list item, and its members. Raises: ProtocolError for an invalid item."""
    try:
        members = read_members(item)
        return _read_text(members[KEYS[kind]]), members
    except (*DECODE_ERRORS, KeyError) as error:
        raise ProtocolError(f"invalid item in the list of {kind}: {error}") from error


def read_member(request: e.Serve, name: str) -> tuple[str, Members]:
    """Return a member of the params that is a string, and all members; an empty string if there is none."""
    try:
        members = read_members(request.params or b"{}")
        return _read_text(members[name]), members
    except (*DECODE_ERRORS, KeyError):
        return "", {}  # the server's own handler reports what is wrong


def make_entry(
    kind: Kind, members: Members, key: str, *, mount: object = None, original: str = "", like: Entry | None = None
) -> Mounted:
    """Return the entry for a list item of another server under the name or URI `key`.

    Scopes and tags are those of `like`. Raises: ProtocolError for an invalid item.
    """
    members[KEYS[kind]] = Raw(msgspec.json.encode(key))
    listed = plain = msgspec.json.encode(members)
    if kind is Kind.TOOLS and "outputSchema" in members:
        plain = msgspec.json.encode({name: value for name, value in members.items() if name != "outputSchema"})
    common: dict[str, Any] = {
        "key": key,
        "listed": listed,
        "listed_plain": plain,
        "call": _never_called,
        "bind": _bind_nothing,
        "is_async": True,
        "is_blocking": False,
        "mount": mount,
        "original": original or key,
        "source": like,
        "tags": frozenset() if like is None else like.tags,
    }
    if kind is Kind.TOOLS:
        return MountedTool(
            **common,
            body=decode(Tool, listed),
            encode_result=_never_called,
            param_headers=_param_headers(listed),
            scopes=like.scopes if isinstance(like, ToolEntry) else frozenset(),
        )
    if kind is Kind.PROMPTS:
        return MountedPrompt(**common, body=decode(Prompt, listed))
    is_template = kind is Kind.TEMPLATES
    return MountedResource(
        **common,
        body=decode(ResourceTemplate, listed) if is_template else decode(Resource, listed),
        template=_template(key) if is_template else None,
        options=ResourceOptions(),
    )


def _template(text: str) -> UriTemplate:
    try:
        return UriTemplate(text, allow_traversal=True)  # the mounted server decides
    except UsageError:
        return AnyUri(text)


def _param_headers(listed: bytes) -> tuple[ParamHeader, ...]:
    if b'"x-mcp-header"' not in listed:
        return ()
    from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # few tools need it

    return tuple(read_param_headers(dict(decode(Tool, listed).input_schema)).rows)


def _bind_nothing(*_: object) -> None:
    """Return no call: a URI that no mount serves, such as one that a transform hides, is not found."""


def _never_called(*_: object) -> Any:
    raise AssertionError("a mounted entry is served by its own server")
