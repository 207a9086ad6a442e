"""Access control of the pages besides the endpoint: the same rules for Host, Origin and tokens as the endpoint."""

from typing import TYPE_CHECKING

from jackstay.inspector import RequestRejected
from jackstay.protocol.http import check_access, fold_headers
from jackstay.server.http import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jackstay.server.http import App, Scope


async def authorize(app: "App", scope: "Scope") -> Principal:
    """Return the principal of a request, by the rules of the endpoint.

    Raises: RequestRejected for a disallowed Host or Origin, or a missing or invalid token.
    """
    headers = check_host_and_origin(app, scope)
    if app.guard is None:
        return ANONYMOUS
    admitted = await app.guard.authenticate(scope["method"], scope["path"], headers)
    if not isinstance(admitted, Principal):
        raise RequestRejected(admitted)
    return admitted


def check_host_and_origin(app: "App", scope: "Scope") -> "Mapping[str, str]":
    """Return the headers of a request after checking its Host and Origin.

    Raises: RequestRejected.
    """
    headers: Mapping[str, str] = fold_headers(scope["headers"])
    response = check_access(app.access, headers)
    if response is not None:
        raise RequestRejected(response)
    return headers


__all__ = ["authorize", "check_host_and_origin"]
