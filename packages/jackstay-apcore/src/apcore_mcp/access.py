"""Access control of the pages besides the endpoint: the same rules for Host, Origin and tokens as the endpoint.

Requests to the API of the inspector must also come from a page of this server, or from no web page at all. An origin
that may call the endpoint (`cors`) may not use the inspector.
"""

from typing import TYPE_CHECKING

from apcore_mcp.responses import RequestRejected
from jackstay.protocol.http import check_access, error_response, fold_headers
from jackstay.server.http import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jackstay.protocol.http import ErrorResponse
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


def check_same_origin(headers: "Mapping[str, str]") -> "ErrorResponse | None":
    """Return the error response for a request from another web page, or None.

    Browsers send Fetch Metadata, and Origin with everything but simple reads. Other programs send neither.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    # "none" is a URL that the user typed.
    if site not in ("same-origin", "none"):
        return error_response(403, "only the inspector's own page may send this request")
    # Browsers omit the default port in both headers.
    if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
        return error_response(403, "only the inspector's own page may send this request")
    return None


__all__ = ["authorize", "check_host_and_origin", "check_same_origin"]
