"""MCP apps (extension `io.modelcontextprotocol/ui`, SEP-1865 of 2026-01-26): HTML pages that hosts show for tools.

An app is a resource `ui://...` to which tools refer in `_meta.ui`. A host shows it in a sandboxed iframe, under a
content security policy that allows only the origins which the app declares. Hosts without apps use the text of results.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from jackstay.errors import Json, ProtocolError, UsageError
from jackstay.extensions import Extension
from jackstay.types import Tool

# The identifier of the extension, and the type of the pages.
APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
APP_MIME_TYPE: Final = "text/html;profile=mcp-app"

# A feature of the browser that an app may need.
Permission: TypeAlias = Literal["camera", "microphone", "geolocation", "clipboardWrite"]

# An origin without a path, perhaps with a wildcard for its first label. Anything else could change the policy.
_ORIGIN: Final = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")
# The features of the Permissions Policy, as the `allow` attribute of an iframe has them.
_FEATURES: Final[Mapping[str, str]] = {name: name for name in get_args(Permission)} | {
    "clipboardWrite": "clipboard-write"
}


class Apps(Extension):
    """Declares that a client shows apps, or that a server has some: `connect(server, extensions=[Apps()])`.

    A server with `@server.tool(app=...)` declares it by itself.
    """

    def __init__(self) -> None:
        super().__init__(APPS_EXTENSION, settings={"mimeTypes": [APP_MIME_TYPE]})


class App(msgspec.Struct, frozen=True):
    """An app: its page, and what the page may use.

    `html` is the page, or the path of a file that is read for each request. `connect_domains` are origins for requests
    of the page, `resource_domains` for scripts, styles, images, fonts and media, `frame_domains` for its iframes, and
    `base_uri_domains` for its base URI; all others are blocked. `permissions` are features of the browser, which a host
    may refuse. `domain` and `prefers_border` are hints for the host.

    Raises: UsageError for a URI that does not begin with `ui://`, for an invalid origin, and for an unknown permission.
    """

    uri: str
    html: str | os.PathLike[str]
    connect_domains: Sequence[str] = ()
    resource_domains: Sequence[str] = ()
    frame_domains: Sequence[str] = ()
    base_uri_domains: Sequence[str] = ()
    permissions: Sequence[Permission] = ()
    domain: str | None = None
    prefers_border: bool | None = None

    def __post_init__(self) -> None:
        if not str(self.uri).startswith("ui://"):
            raise UsageError(f"the URI of an app must begin with ui://, not {self.uri!r}", path="uri")
        if not isinstance(self.html, str | os.PathLike):
            raise UsageError(f"html must be a str or a path, not {self.html!r}", path="html")
        for name in (*_DOMAINS, "permissions"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise UsageError(f"{name} must be a list of strings, not {values!r}", path=name)
            msgspec.structs.force_setattr(self, name, tuple(values))
        for name in _DOMAINS:
            for origin in getattr(self, name):
                if not isinstance(origin, str) or _ORIGIN.fullmatch(origin) is None:
                    message = f"{name} must be origins such as 'https://api.example.com', not {origin!r}"
                    raise UsageError(message, path=name)
        for permission in self.permissions:
            if permission not in _FEATURES:
                known = ", ".join(_FEATURES)
                raise UsageError(f"permissions must be some of {known}, not {permission!r}", path="permissions")

    def read(self) -> str:
        """Return the page."""
        if isinstance(self.html, str):
            return self.html
        with open(self.html, encoding="utf-8") as file:
            return file.read()

    @property
    def meta(self) -> dict[str, Json]:
        """The `_meta` of the resource."""
        csp: dict[str, Json] = {wire: list(found) for name, wire in _DOMAINS.items() if (found := getattr(self, name))}
        permissions: dict[str, Json] = {name: {} for name in self.permissions}
        members = {
            "csp": csp or None,
            "permissions": permissions or None,
            "domain": self.domain,
            "prefersBorder": self.prefers_border,
        }
        ui: dict[str, Json] = {name: value for name, value in members.items() if value is not None}
        return {"ui": ui} if ui else {}

    @property
    def policy(self) -> str:
        """The content security policy under which a host shows the page, for the header of the same name.

        It is the one of SEP-1865, except that requests are limited to `connect_domains` and there are no forms: a host
        may restrict an app further.
        """
        resources = "".join(f" {origin}" for origin in self.resource_domains)
        rows = [
            "default-src 'none'",
            f"script-src 'self' 'unsafe-inline'{resources}",
            f"style-src 'self' 'unsafe-inline'{resources}",
            f"img-src 'self' data:{resources}",
            f"font-src 'self'{resources}",
            f"media-src 'self' data:{resources}",
            f"connect-src {' '.join(self.connect_domains) or _NONE}",
            f"frame-src {' '.join(self.frame_domains) or _NONE}",
            f"base-uri {' '.join(self.base_uri_domains) or _SELF}",
            "object-src 'none'",
            "form-action 'none'",
        ]
        return "; ".join(rows)

    @property
    def allow(self) -> str:
        """The `allow` attribute of the iframe, if the host grants all permissions."""
        return "; ".join(_FEATURES[name] for name in self.permissions)


def app_from_contents(uri: str, html: str, meta: Mapping[str, Any]) -> App:
    """Return the app that a server returned for a URI. Raises: ProtocolError for an invalid one."""
    try:
        ui = msgspec.convert(meta.get("ui", {}), _Ui)
        domains = {name: getattr(ui.csp, name) for name in _DOMAINS}
        known = [name for name in ui.permissions if name in _FEATURES]
        return App(uri, html, **domains, permissions=known, domain=ui.domain, prefers_border=ui.prefers_border)  # type: ignore[arg-type]  # checked by App
    except (msgspec.ValidationError, UsageError) as error:
        raise ProtocolError(f"the app {uri} is invalid: {error}", sent=True) from error


def app_of_tool(tool: Tool) -> str | None:
    """Return the URI of the app of a tool, or None."""
    ui = _ui_of(tool)
    # The second one is deprecated, but servers still send it.
    found = ui.get("resourceUri") or (tool.meta or {}).get("ui/resourceUri")
    return found if isinstance(found, str) else None


def is_for_model(tool: Tool) -> bool:
    """Return whether a model may see and call a tool; otherwise it is for its app only."""
    visibility = _ui_of(tool).get("visibility")
    return not isinstance(visibility, list) or "model" in visibility


def is_for_app(tool: Tool) -> bool:
    """Return whether an app of the same server may call a tool."""
    visibility = _ui_of(tool).get("visibility")
    return not isinstance(visibility, list) or "app" in visibility


def _ui_of(tool: Tool) -> Mapping[str, Json]:
    ui = (tool.meta or {}).get("ui")
    return ui if isinstance(ui, dict) else {}


def shows_apps(extensions: object) -> bool:
    """Return whether a client that declared these extensions shows apps of the type that this package serves."""
    settings = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    types = settings.get("mimeTypes") if isinstance(settings, Mapping) else None
    return isinstance(types, list | tuple) and APP_MIME_TYPE in types


class _Csp(msgspec.Struct, rename="camel"):
    connect_domains: list[str] = []
    resource_domains: list[str] = []
    frame_domains: list[str] = []
    base_uri_domains: list[str] = []


class _Ui(msgspec.Struct, rename="camel"):
    csp: _Csp = msgspec.field(default_factory=_Csp)
    permissions: dict[str, Any] = {}
    domain: str | None = None
    prefers_border: bool | None = None


# The fields of an app with origins, and their names on the wire.
_DOMAINS: Final[Mapping[str, str]] = dict(zip(_Csp.__struct_fields__, _Csp.__struct_encode_fields__, strict=True))
_NONE: Final = "'none'"
_SELF: Final = "'self'"

__all__ = [
    "APPS_EXTENSION",
    "APP_MIME_TYPE",
    "App",
    "Apps",
    "Permission",
    "app_from_contents",
    "app_of_tool",
    "is_for_app",
    "is_for_model",
    "shows_apps",
]
