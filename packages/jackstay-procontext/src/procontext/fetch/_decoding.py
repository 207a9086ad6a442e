"""Bytes of a document to text: what the host says, what the document says, and what they really are.

Hosts name the wrong charset more often than documents are broken, so nothing is refused for its charset: a byte-order mark
wins, then what is declared if the bytes agree, then UTF-8, then Windows-1252, which every byte but five has a meaning in.

Pure. Must never know where the bytes came from. Above: `procontext.page`. Below: codecs.
"""

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PARAMETER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)
# HTML standard 13.2.3.2: a declaration stands in the first 1,024 bytes.
_DECLARATION_BYTES = 1024

# Python's own notations: no document is written in them.
_NO_CHARSETS = frozenset(("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"))

# Names under which hosts send the larger sets that grew from them (WHATWG Encoding, 4.2).
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}

# Text by their type although the name does not say so.
_TEXT_TYPES = (
    "application/json",
    "application/xhtml+xml",
    "application/xml",
    "application/markdown",
    "application/octet-stream",  # what plain file servers say of .md; the bytes decide
)


def media_type(content_type: str) -> str:
    """The type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_text(content_type: str, body: bytes) -> bool:
    """Whether this can be read at all: a type of text, and no NUL among the first bytes unless UTF-16 says so."""
    kind = media_type(content_type)
    if kind and not kind.startswith("text/") and kind not in _TEXT_TYPES and not kind.endswith("+xml"):
        return False
    return b"\0" not in body[:_DECLARATION_BYTES] or body.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    )


def decode(body: bytes, content_type: str = "") -> str:
    """The text of a document. Never fails; what has no meaning becomes U+FFFD. A byte-order mark is left out."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    head = body[:_DECLARATION_BYTES].decode("latin-1")
    is_marked_up = "html" in content_type or "xml" in content_type
    declared = _PARAMETER.search(content_type) or (_PARAMETER.search(head) if is_marked_up else None)
    for name in (declared[1] if declared else "utf-8", "utf-8"):
        text = _try(body, name)
        if text is not None:
            return text
    return body.decode("cp1252", "replace")


def _try(body: bytes, name: str) -> str | None:
    try:
        codec = codecs.lookup(name)
        if not codec._is_text_encoding or codec.name in _NO_CHARSETS:
            return None  # `charset=zip` and the like unpack, and without a bound
        return body.decode(_WIDER.get(codec.name, name))
    except (LookupError, ValueError):  # a codec may say UnicodeError, which is wider than UnicodeDecodeError
        return None


__all__ = ["decode", "is_text", "media_type"]
