"""Decoding of documents to text.

A byte-order mark has precedence, then the declared charset if the bytes are valid in it, then UTF-8, then Windows-1252.
A wrong charset is never an error, because hosts often declare one.
"""

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PARAMETER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE)
# HTML standard, 13.2.3.2: the declaration is within the first 1,024 bytes.
_DECLARATION_BYTES = 1024

# Text codecs of Python that are not charsets.
_NO_CHARSETS = frozenset(("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"))

# Charset labels that mean a superset (WHATWG Encoding, 4.2).
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}

# Media types of text besides text/*.
_TEXT_TYPES = (
    "application/json",
    "application/xhtml+xml",
    "application/xml",
    "application/markdown",
    "application/octet-stream",  # sent by plain file servers for .md; the bytes decide
)


def media_type(content_type: str) -> str:
    """Return the media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_text(content_type: str, body: bytes) -> bool:
    """Return whether a body is text: a media type of text, and no NUL at the start unless it is UTF-16."""
    kind = media_type(content_type)
    if kind and not kind.startswith("text/") and kind not in _TEXT_TYPES and not kind.endswith("+xml"):
        return False
    return b"\0" not in body[:_DECLARATION_BYTES] or body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def decode(body: bytes, content_type: str = "") -> str:
    """Decode a document. Never fails: undecodable bytes become U+FFFD. A byte-order mark is removed."""
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
            return None  # codecs such as `zip` decompress, without a size limit
        return body.decode(_WIDER.get(codec.name, name))
    except (LookupError, ValueError):  # some codecs raise UnicodeError, the base class of UnicodeDecodeError
        return None


__all__ = ["decode", "is_text", "media_type"]
