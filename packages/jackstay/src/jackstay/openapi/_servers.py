"""The base URL of an operation: `servers` of the document, their variables, and the author's own URL. No I/O."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from jackstay.errors import UsageError
from jackstay.openapi._document import Document, Node, text
from jackstay.openapi._problems import OpenApiError, join, names_of


def read_server(document: Document, owners: tuple[Node, ...], variables: Mapping[str, str]) -> str:
    """Return the URL of the first server of the first owner that has any; "/" if none has.

    Raises: OpenApiError for a variable without a value, or with one that the document does not allow.
    """
    for owner in owners:
        for server in document.items(owner, "servers"):
            return _expand(document, server, variables)
    return "/"


def _expand(document: Document, server: Node, variables: Mapping[str, str]) -> str:
    known = document.member(server, "variables")

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        variable = document.member(known, name)
        value = variables.get(name, variable.value.get("default"))
        if not isinstance(value, str):
            message = f"the server variable {name!r} has no default: pass server_variables={{{name!r}: ...}}"
            raise OpenApiError(message, pointer=variable.pointer)
        allowed = variable.value.get("enum")
        if isinstance(allowed, list) and allowed and value not in allowed:
            message = f"the server variable {name!r} must be one of {names_of(allowed)}, not {value!r}"
            raise OpenApiError(message, pointer=join(variable.pointer, "enum"))
        return value

    return re.sub(r"\{([^{}]*)\}", value_of, text(server, "url") or "/")


def check_server(url: str, pointer: str) -> str:
    """Return the URL of a server without a slash at the end.

    Raises: OpenApiError, if the URL is relative, or not one of HTTP.
    """
    parts = urlsplit(url)
    if not parts.scheme and not parts.netloc:
        raise OpenApiError(f"the server URL {url[:200]!r} is relative: pass base_url=", pointer=pointer)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise OpenApiError(f"the server URL {url[:200]!r} is not an HTTP URL without a query", pointer=pointer)
    return url.rstrip("/")


def check_base_url(base_url: str) -> str:
    """Return the author's URL without a slash at the end. Raises: UsageError."""
    try:
        return check_server(base_url, "base_url")
    except (OpenApiError, ValueError) as error:
        raise UsageError(f"base_url must be an HTTP URL, not {base_url!r}", path="base_url") from error
