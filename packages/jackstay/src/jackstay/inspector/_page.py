"""The files of the inspector page: document, scripts and style, with the security headers of the document.

Descriptions and results are untrusted; the scripts insert them as text only. The policy allows only scripts, styles and
frames of this server, requests to it, media in `data:` URLs, no forms and no markup from strings (Trusted Types). The
document contains no data, so it is the same for every user.
"""

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from jackstay.inspector._responses import respond

if TYPE_CHECKING:
    from jackstay.server.http import Send

# The types of the files that the document loads.
_KINDS: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_NAME: Final = re.compile(r"/assets/([a-z]+\.(css|js))")

# The headers of the document.
PAGE_HEADERS: Final = (
    (
        "content-security-policy",
        "; ".join(
            (
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "img-src data:",  # images in results, and the empty icon, without which browsers request /favicon.ico
                "media-src data:",
                "frame-src 'self'",  # apps, which have no origin: see `_apps`
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        ),
    ),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)

# The placeholders in the document: the path of the other files, and the drawing of the state machine.
_PATH: Final = "{assets}"
_MACHINE: Final = "<!--machine-->"


@lru_cache(maxsize=32)
def read_asset(name: str) -> bytes | None:
    """Return a file of the page, cached; None if there is none of this name."""
    file = files("jackstay.inspector") / "assets" / name
    return file.read_bytes() if file.is_file() else None


@cache
def read_document(path: str) -> bytes:
    """Return the document. `path` is the URL of the directory with the other files, relative to the document."""
    text, machine = ((read_asset(name) or b"").decode() for name in ("page.html", "machine.svg"))
    return text.replace(_MACHINE, machine).replace(_PATH, path).encode()


async def respond_page(send: "Send", path: str, name: str) -> bool:
    """Respond with the document (`path` is "" or "/") or one of its files; return False for any other path.

    `name` is the last part of the document's own path, for the relative URLs in it.
    """
    if path in ("", "/"):
        document = read_document("assets/" if path or not name else f"{name}/assets/")
        await respond(send, 200, "text/html; charset=utf-8", document, PAGE_HEADERS)
        return True
    found = _NAME.fullmatch(path)
    body = None if found is None else read_asset(found[1])
    if found is None or body is None:
        return False
    await respond(send, 200, _KINDS[found[2]], body)
    return True
