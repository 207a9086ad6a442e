"""Tables of contents from the files of documentation generators."""

import zlib

import pytest

from procontext.page._indexes import (
    folder_of,
    from_addresses,
    from_inventory,
    from_navigation,
    from_search_index,
    inventory_version,
    is_below,
    links_of,
    read_sitemap,
    write_index,
)

BASE = "https://docs.example.com/en/"


def inventory(*rows: str) -> bytes:
    head = b"# Sphinx inventory version 2\n# Project: P\n# Version: 1\n# packed\n"
    return head + zlib.compress("\n".join(rows).encode())


# --- Sphinx -----------------------------------------------------------------------------------------------------------


def test_inventory() -> None:
    data = inventory(
        "guide/start std:doc -1 guide/start.html Getting started",
        "index std:doc -1 index.html -",
        "harbour.moor py:function 1 api.html#$ -",
        "harbour.Pier py:class 1 api.html#$ -",
        "harbour.Pier.berths py:method 1 api.html#$ -",
        "a name with spaces std:label -1 x.html#y A label",
        "--flag std:cmdoption 1 cli.html#f -",
        "HARBOUR_HOME std:envvar 1 cli.html#h -",
        "broken line",
        "",
        "evil std:doc -1 javascript:alert(1) Evil",
    )
    assert from_inventory(data, BASE, "Harbour") == (
        "# Harbour\n\n## Pages\n\n"
        "- [Getting started](https://docs.example.com/en/guide/start.html)\n"
        "- [index](https://docs.example.com/en/index.html)\n"
        "\n## API\n\n"
        "- [harbour.moor](https://docs.example.com/en/api.html#harbour.moor): function\n"
        "- [harbour.Pier](https://docs.example.com/en/api.html#harbour.Pier): class\n"
        "- [--flag](https://docs.example.com/en/cli.html#f): option\n"
        "- [HARBOUR_HOME](https://docs.example.com/en/cli.html#h): environment variable\n"
    )


INVALID_INVENTORIES: list[bytes] = [
    b"",
    b"<!doctype html><html>",
    b"# Sphinx inventory version 1\nx",
    b"# Sphinx inventory version 2\n#\n#\n#\nnot packed",
    b"# Sphinx inventory version 2",
    inventory(),
]


def test_invalid_inventories() -> None:
    for data in INVALID_INVENTORIES:
        assert from_inventory(data, BASE, "P") is None, data


def test_inventory_bomb() -> None:
    data = b"# Sphinx inventory version 2\n#\n#\n#\n" + zlib.compress(b"\n" * (80 * 1024 * 1024), 9)
    assert from_inventory(data, BASE, "P") is None


# --- MkDocs -----------------------------------------------------------------------------------------------------------


def test_search_index() -> None:
    data = (
        b'{"config": {}, "docs": [{"location": "", "title": "Home", "text": "x"},'
        b'{"location": "guide/", "title": "The &lt;Guide&gt;"}, {"location": "guide/#a", "title": "<code>A</code>"},'
        b'{"location": "https://evil.example/", "title": "Elsewhere"}, {"location": "t/"}]}'
    )
    assert from_search_index(data, BASE, "Harbour") == (
        "# Harbour\n\n## Pages\n\n"
        "- [Home](https://docs.example.com/en/)\n"
        "- [The <Guide>](https://docs.example.com/en/guide/)\n"
        "  - [A](https://docs.example.com/en/guide/#a)\n"
        "- [t/](https://docs.example.com/en/t/)\n"
    )


DEEP = b'{"config": ' + b"[" * 3000 + b"]" * 3000 + b', "docs": []}'


def test_invalid_search_indexes() -> None:
    for data in [b"", b"<html>", b"{}", b'{"docs": 7}', b'{"docs": []}', b"\xff", b"[" * 3000 + b"]" * 3000, DEEP]:
        assert from_search_index(data, BASE, "P") is None, data


# --- any site ---------------------------------------------------------------------------------------------------------


def test_sitemap() -> None:
    text = (
        "<?xml version='1.0'?><urlset><url><loc> https://docs.example.com/en/a </loc></url>"
        "<url><loc><![CDATA[https://docs.example.com/en/b?x=1&y=2]]></loc></url><url><loc>/en/c</loc></url>"
        "<url><loc>https://docs.example.com/en/d?x=1&amp;y=2</loc></url>"
        "<url><loc>https://docs.example.com/de/a</loc></url><url><loc>https://evil.example/en/</loc></url>"
        "<url><loc>not a URL: [</loc></url></urlset>"
    )
    sitemap = read_sitemap(text, BASE)
    assert sitemap is not None
    pages, nested = sitemap
    assert [page.removeprefix(BASE) for page in pages] == ["a", "b?x=1&y=2", "c", "d?x=1&y=2"]
    assert nested == []
    assert from_addresses([f"{BASE}how%20to/x", BASE], BASE, "P") == (
        f"# P\n\n## Pages\n\n- [how to/x]({BASE}how%20to/x)\n- [P]({BASE})\n"
    )


def test_sitemap_index() -> None:
    text = "<sitemapindex><sitemap><loc>https://docs.example.com/s1.xml</loc></sitemap></sitemapindex>"
    assert read_sitemap(text, BASE) == ([], ["https://docs.example.com/s1.xml"])


def test_invalid_and_hostile_sitemaps() -> None:
    assert read_sitemap("<!doctype html><html>", BASE) is None
    assert read_sitemap("<urlset><loc>" + " " * 5_000_000, BASE) == ([], [])
    assert read_sitemap("<!DOCTYPE x [<!ENTITY a 'aa'>]><urlset><loc>&a;</loc></urlset>", BASE) is not None


def test_navigation() -> None:
    html = (
        "<nav><a href=guide.html>The  Guide</a><a href=guide.html#x>again</a><a href=/de/x>other</a><a href=q></a>"
        "<a href=https://evil.example/>evil</a><a href=index.html>self</a></nav><a href=body.html>not in the menu</a>"
    )
    assert from_navigation(html, f"{BASE}index.html", "P") == (f"# P\n\n## Pages\n\n- [The Guide]({BASE}guide.html)\n")


def test_front_page_without_navigation() -> None:
    text = from_navigation("<p><a href=a>A [x](y)</a></p>", BASE, "P")
    assert text == f"# P\n\n## Pages\n\n- [A \\[x\\](y)]({BASE}a)\n"
    assert from_navigation("<p>none</p>", BASE, "P") is None
    assert write_index("P", [("Pages", [])]) is None


FOLDERS: list[tuple[str, str]] = [
    ("https://a.example", "https://a.example/"),
    ("https://a.example/en/stable/", "https://a.example/en/stable/"),
    ("https://a.example/en/index.html", "https://a.example/en/"),
    ("https://a.example/guide?x#y", "https://a.example/guide/"),
]


def test_folder_of() -> None:
    for url, expected in FOLDERS:
        assert folder_of(url) == expected, url


def test_is_below() -> None:
    assert is_below("https://a.example/en/x", "https://a.example/en/")
    assert is_below("https://a.example/en", "https://a.example/en/")
    assert is_below("https://a.example/en/x", "https://a.example/en")
    assert not is_below("https://a.example/english", "https://a.example/en")


# --- links ------------------------------------------------------------------------------------------------------------


def test_links_of() -> None:
    text = (
        "# X\n- [A](https://a.example/x#y): and https://b.example/z.\n- [B](../rel.md)\n"
        "- [A again](https://A.example/x)\n"
        "<https://c.example/(d)> [P](https://p.example/w_(x)) [bad](mailto:a@b) [creds](https://u@a.example/)"
        " [s](a b)\n"
    )
    assert list(links_of(text, "https://docs.example.com/en/llms.txt")) == [
        "https://a.example/x",
        "https://docs.example.com/rel.md",
        "https://p.example/w_(x)",
        "https://docs.example.com/en/a",
        "https://b.example/z",
        "https://c.example/(d",
        "https://p.example/w_(x",
    ]


def test_number_of_links_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._indexes.MAX_LINKS", 10)
    text = "\n".join(f"- [x](https://a.example/{number})" for number in range(50))
    assert len(list(links_of(text, BASE))) == 10


def test_version_of_an_inventory() -> None:
    assert inventory_version(inventory()) == "1"
    assert inventory_version(inventory().replace(b"# Version: 1\n", b"# Version:\n")) is None
    assert inventory_version(b"# Sphinx inventory version 2\n") is None
    assert inventory_version(b"<html>") is None
