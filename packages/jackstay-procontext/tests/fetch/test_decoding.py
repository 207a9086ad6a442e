"""Decoding of documents, including documents with a wrong charset."""

import codecs

from procontext.fetch import decode, is_text, media_type

ROWS = [
    ("ü".encode(), "text/plain", "ü"),
    ("ü".encode(), "text/plain; charset=utf-8", "ü"),
    ("ü".encode("latin-1"), "text/plain; charset=iso-8859-1", "ü"),
    # The declared charset is wrong.
    ("ü".encode("latin-1"), "text/plain; charset=utf-8", "ü"),
    ("日本".encode(), "text/plain; charset=ascii", "日本"),
    ("ü".encode(), "text/plain; charset=no-such-thing", "ü"),
    ("ü".encode(), "text/plain; charset=zlib", "ü"),
    *(
        ("ü".encode(), f"text/plain; charset={name}", "ü")
        for name in ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape")
    ),
    (b"\\u0041", "text/plain; charset=unicode_escape", "\\u0041"),
    ("镕".encode("gbk"), "text/html; charset=gb2312", "镕"),
    ("①".encode("cp932"), "text/html; charset=shift_jis", "①"),
    ("ü".encode("latin-1"), "text/plain", "ü"),
    (b"\x81", "text/plain", "\ufffd"),
    # Byte-order marks and declarations in the document.
    (codecs.BOM_UTF8 + "ü".encode(), "text/plain; charset=latin-1", "ü"),
    (codecs.BOM_UTF16_LE + "ü".encode("utf-16-le"), "text/plain", "ü"),
    (codecs.BOM_UTF16_BE + "ü".encode("utf-16-be"), "text/plain", "ü"),
    (b'<meta charset="koi8-r">\xc4', "text/html", '<meta charset="koi8-r">д'),
    (b"charset=koi8-r \xc4\x80", "text/plain", "charset=koi8-r Ā"),
    (b"", "", ""),
]


def test_decode() -> None:
    for data, content_type, expected in ROWS:
        assert decode(data, content_type) == expected, data


CONTENT_TYPES: list[tuple[str, bytes, bool]] = [
    ("text/markdown", b"x", True),
    ("TEXT/HTML; charset=utf-8", b"x", True),
    ("", b"x", True),
    ("application/octet-stream", b"# Readme", True),
    ("image/svg+xml", b"<svg/>", True),
    ("application/octet-stream", b"\x7fELF\0\0", False),
    ("text/plain", b"\0", False),
    ("text/plain", codecs.BOM_UTF16_LE + b"x\0", True),
    ("image/png", b"x", False),
    ("application/pdf", b"%PDF", False),
]


def test_is_text() -> None:
    for content_type, data, expected in CONTENT_TYPES:
        assert is_text(content_type, data) is expected, content_type


def test_media_type() -> None:
    assert media_type("Text/HTML ; charset=x") == "text/html"
