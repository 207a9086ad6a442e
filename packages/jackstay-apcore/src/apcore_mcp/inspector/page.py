"""The page: one HTML document with its style and its script inside, and the headers that let nothing else run in it.

Descriptions come from whoever wrote a module, results from wherever it read. The script writes them as text only; and should
it ever be talked into more, the policy has no room for it: only the one script and the one style whose digests are named,
requests to this server alone, no frames, no forms, no base, no markup made from text (Trusted Types).

Must never know a tool: the page holds no data, so it is the same for everybody. Above: `paths`. Below: the files in `assets`.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

# The script, in the order of its parts: each uses those before it.
SCRIPTS: Final = ("dom.js", "form.js", "views.js", "page.js")

# Where the two stand in the document.
_STYLE: Final = "/*style*/"
_SCRIPT: Final = "/*script*/"


class Page(msgspec.Struct, frozen=True):
    """The document, and the headers that it must be sent with."""

    body: bytes
    headers: tuple[tuple[str, str], ...]


@cache
def read_page() -> Page:
    """The page, put together from the package's files; read once."""
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
            "img-src data:",  # the empty icon, without which browsers ask for /favicon.ico
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
