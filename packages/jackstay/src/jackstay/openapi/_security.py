"""Security schemes: which credentials an operation needs, and where they are written. No I/O.

Credentials come from the author of the server. A caller can neither set nor see them.
"""

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from jackstay.errors import UsageError, did_you_mean
from jackstay.openapi._document import Document, Node, text
from jackstay.openapi._parameters import Location
from jackstay.openapi._problems import OpenApiError, join

# A key, a token, or a name and a password.
Secret: TypeAlias = str | tuple[str, str]

# A secret, or a function, sync or async, that returns it. It is called for every request.
Credential: TypeAlias = Secret | Callable[[], Secret | Awaitable[Secret]]


class Scheme(msgspec.Struct, frozen=True):
    """A security scheme. `kind` is `apiKey`, `basic` or `bearer`, or `other` if a client must implement it."""

    name: str
    kind: str
    location: Location = "header"
    parameter: str = "Authorization"


def read_schemes(document: Document) -> dict[str, Scheme]:
    """Return the security schemes of a document. Raises: OpenApiError."""
    root = Node(document.root, "#")
    return {
        name: _read_scheme(name, node)
        for name, node in document.members(document.member(root, "components", "securitySchemes"))
    }


def _read_scheme(name: str, node: Node) -> Scheme:
    kind = text(node, "type")
    if kind == "apiKey":
        location, parameter = node.value.get("in"), text(node, "name")
        if location not in ("header", "query", "cookie") or not parameter:
            message = f"the API key {name!r} needs a name, and 'in' must be header, query or cookie"
            raise OpenApiError(message, pointer=node.pointer)
        return Scheme(name, kind, location, parameter)  # type: ignore[arg-type]  # checked
    if kind == "http":
        scheme = text(node, "scheme").lower()
        return Scheme(name, scheme if scheme in ("basic", "bearer") else "other")
    return Scheme(name, "bearer" if kind in ("oauth2", "openIdConnect") else "other")


def read_security(document: Document, operation: Node, schemes: Mapping[str, Scheme]) -> tuple[tuple[Scheme, ...], ...]:
    """Return the alternatives of an operation; each needs all of its schemes. Empty if it needs none.

    Raises: OpenApiError for an unknown scheme.
    """
    owner = operation if "security" in operation.value else Node(document.root, "#")
    found = []
    for node in document.items(owner, "security"):
        for name in node.value:
            if name not in schemes:
                raise OpenApiError(f"unknown security scheme {name!r}", pointer=join(node.pointer, name))
        found.append(tuple(schemes[name] for name in node.value))
    return tuple(found)


def check_credentials(credentials: Mapping[str, Credential], schemes: Mapping[str, Scheme]) -> None:
    """Raise UsageError for credentials without a scheme, or of the wrong type."""
    for name, credential in credentials.items():
        scheme = schemes.get(name)
        if scheme is None:
            hint = did_you_mean(name, schemes) or f"; the document has: {', '.join(schemes) or 'none'}"
            raise UsageError(f"credentials: unknown security scheme {name!r}{hint}", path="credentials")
        if scheme.kind == "other":
            message = f"credentials: the scheme {name!r} is not supported; configure it in your own client"
            raise UsageError(message, path="credentials")
        if not callable(credential):
            apply_secret(scheme, credential)


def choose_schemes(alternatives: tuple[tuple[Scheme, ...], ...], credentials: Iterable[str]) -> tuple[Scheme, ...]:
    """Return the schemes of the first alternative for which all credentials exist; none if there is no such one."""
    known = set(credentials)
    usable = (schemes for schemes in alternatives if schemes and all(scheme.name in known for scheme in schemes))
    return next(usable, ())


def apply_secret(scheme: Scheme, secret: Secret) -> tuple[Location, str, str]:
    """Return where a secret is written, under which name, and its value. Raises: UsageError for the wrong type."""
    if scheme.kind == "basic":
        pair = secret if isinstance(secret, tuple) else tuple(secret.partition(":")[::2])
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair) or ":" in pair[0]:
            raise UsageError(f"credentials: {scheme.name!r} needs a tuple (name, password)", path="credentials")
        encoded = base64.b64encode(":".join(pair).encode()).decode()
        return "header", "Authorization", f"Basic {encoded}"
    if not isinstance(secret, str) or not secret or any(character < " " for character in secret):
        raise UsageError(f"credentials: {scheme.name!r} needs a str without control characters", path="credentials")
    return scheme.location, scheme.parameter, f"Bearer {secret}" if scheme.kind == "bearer" else secret
