"""The HTML document of the inspector, with its style, its script and its security headers.

Descriptions and results are untrusted; the script inserts them as text only. The Content Security Policy allows only
this script and this style (by digest), requests to this server, and no frames, forms or markup from strings (Trusted
Types). The document contains no data, so it is the same for every user.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

# The files of the script, in order: each uses those before it.
SCRIPTS: Final = ("dom.js", "form.js", "views.js", "page.js")

# The placeholders in the document.
_STYLE: Final = "/*style*/"
_SCRIPT: Final = "/*script*/"


class Page(msgspec.Struct, frozen=True):
    """The document and its headers."""

    body: bytes
    headers: tuple[tuple[str, str], ...]


@cache
def read_page() -> Page:
    """Return the page, assembled from the files of the package and cached."""
    assets = files("apcore_mcp.inspector") / "assets"
    document, style = ((assets / name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS)
    body = document.replace(_STYLE, style).replace(_SCRIPT, script)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "connect-src 'self'",
            "img-src data:",  # the empty icon, without which browsers request /favicon.ico
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    headers = (
        ("content-security-policy", policy),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    )
    return Page(body.encode(), headers)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


__all__ = ["SCRIPTS", "Page", "read_page"]
