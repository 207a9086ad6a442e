"""Who may read what stands beside the endpoint: the same names, pages and tokens as at the endpoint itself.

A request is judged by its headers, before anything is read of it. One more rule holds for what acts: it must come from a page
of this very server, or from no page at all. A page that may call the endpoint (`cors`) may not drive the inspector.

Must never know what is served. Above: `health`, `metrics`, `inspector`. Below: `jackstay.protocol.http`, jackstay's `App`.
"""

from typing import TYPE_CHECKING

from apcore_mcp.answers import Refused
from jackstay.protocol.http import check_access, fold_headers, refuse
from jackstay.server.http import NOBODY, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jackstay.protocol.http import Refusal
    from jackstay.server.http import App, Scope


async def admit(app: "App", scope: "Scope") -> Principal:
    """Whom the request comes from, by the rules of the endpoint.

    Raises: Refused, for a foreign Host or Origin, and for a token that is missing or wrong.
    """
    headers = check_names(app, scope)
    if app.guard is None:
        return NOBODY
    admitted = await app.guard.admit(scope["method"], scope["path"], headers)
    if not isinstance(admitted, Principal):
        raise Refused(admitted)
    return admitted


def check_names(app: "App", scope: "Scope") -> "Mapping[str, str]":
    """The headers of a request whose Host and Origin are allowed.

    Raises: Refused.
    """
    headers: Mapping[str, str] = fold_headers(scope["headers"])
    refusal = check_access(app.access, headers)
    if refusal is not None:
        raise Refused(refusal)
    return headers


def check_same_origin(headers: "Mapping[str, str]") -> "Refusal | None":
    """The refusal of a request that another page sent; None if it is our page's, or no page's.

    Browsers say where a request comes from (Fetch Metadata), and send Origin with everything but plain reads. A program that
    is no browser sends neither, and cannot be steered by a page.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    # Our own address bar is "none": the reader typed it.
    if site not in ("same-origin", "none"):
        return refuse(403, "only the inspector's own page may ask for this")
    # Browsers leave out the port of the scheme in both.
    if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
        return refuse(403, "only the inspector's own page may ask for this")
    return None


__all__ = ["admit", "check_names", "check_same_origin"]
