"""Tables of contents from what generators write (design, section 1, row "entries without llms.txt")."""

import zlib

import pytest

from procontext.page._indexes import (
    folder_of,
    from_addresses,
    from_inventory,
    from_navigation,
    from_search_index,
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


def test_an_inventory_becomes_pages_and_objects() -> None:
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


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!doctype html><html>",
        b"# Sphinx inventory version 1\nx",
        b"# Sphinx inventory version 2\n#\n#\n#\nnot packed",
        b"# Sphinx inventory version 2",
        inventory(),
    ],
)
def test_what_is_no_inventory_gives_none(data: bytes) -> None:
    assert from_inventory(data, BASE, "P") is None


def test_an_inventory_that_is_a_bomb_is_read_to_its_bound() -> None:
    data = b"# Sphinx inventory version 2\n#\n#\n#\n" + zlib.compress(b"\n" * (80 * 1024 * 1024), 9)
    assert from_inventory(data, BASE, "P") is None


# --- MkDocs -----------------------------------------------------------------------------------------------------------


def test_a_search_index_becomes_pages_with_their_sections() -> None:
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


@pytest.mark.parametrize("data", [b"", b"<html>", b"{}", b'{"docs": 7}', b'{"docs": []}', b"\xff"])
def test_what_is_no_search_index_gives_none(data: bytes) -> None:
    assert from_search_index(data, BASE, "P") is None


# --- any site ---------------------------------------------------------------------------------------------------------


def test_a_sitemap_gives_the_pages_below_its_base() -> None:
    text = (
        "<?xml version='1.0'?><urlset><url><loc> https://docs.example.com/en/a </loc></url>"
        "<url><loc><![CDATA[https://docs.example.com/en/b?x=1&y=2]]></loc></url><url><loc>/en/c</loc></url>"
        "<url><loc>https://docs.example.com/en/d?x=1&amp;y=2</loc></url>"
        "<url><loc>https://docs.example.com/de/a</loc></url><url><loc>https://evil.example/en/</loc></url>"
        "<url><loc>not an address at all: [</loc></url></urlset>"
    )
    read = read_sitemap(text, BASE)
    assert read is not None
    pages, further = read
    assert [page.removeprefix(BASE) for page in pages] == ["a", "b?x=1&y=2", "c", "d?x=1&y=2"]
    assert further == []
    assert from_addresses([f"{BASE}how%20to/x", BASE], BASE, "P") == (
        f"# P\n\n## Pages\n\n- [how to/x]({BASE}how%20to/x)\n- [P]({BASE})\n"
    )


def test_a_sitemap_of_sitemaps_names_the_others() -> None:
    text = "<sitemapindex><sitemap><loc>https://docs.example.com/s1.xml</loc></sitemap></sitemapindex>"
    assert read_sitemap(text, BASE) == ([], ["https://docs.example.com/s1.xml"])


def test_what_is_no_sitemap_gives_none_and_a_hostile_one_does_not_take_for_ever() -> None:
    assert read_sitemap("<!doctype html><html>", BASE) is None
    assert read_sitemap("<urlset><loc>" + " " * 5_000_000, BASE) == ([], [])
    assert read_sitemap("<!DOCTYPE x [<!ENTITY a 'aa'>]><urlset><loc>&a;</loc></urlset>", BASE) is not None


def test_the_navigation_of_a_front_page_is_a_table_of_contents() -> None:
    html = (
        "<nav><a href=guide.html>The  Guide</a><a href=guide.html#x>again</a><a href=/de/x>other</a><a href=q></a>"
        "<a href=https://evil.example/>evil</a><a href=index.html>self</a></nav><a href=body.html>not in the menu</a>"
    )
    assert from_navigation(html, f"{BASE}index.html", "P") == (
        f"# P\n\n## Pages\n\n- [The Guide]({BASE}guide.html)\n"
    )


def test_a_front_page_without_navigation_gives_all_its_links() -> None:
    text = from_navigation("<p><a href=a>A [x](y)</a></p>", BASE, "P")
    assert text == f"# P\n\n## Pages\n\n- [A \\[x\\](y)]({BASE}a)\n"
    assert from_navigation("<p>none</p>", BASE, "P") is None
    assert write_index("P", [("Pages", [])]) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://a.example/en/stable/", "https://a.example/en/stable/"),
        ("https://a.example/en/index.html", "https://a.example/en/"),
        ("https://a.example/guide?x#y", "https://a.example/guide/"),
    ],
)
def test_a_front_page_stands_for_a_folder(url: str, expected: str) -> None:
    assert folder_of(url) == expected


def test_below_is_by_whole_names() -> None:
    assert is_below("https://a.example/en/x", "https://a.example/en/")
    assert is_below("https://a.example/en", "https://a.example/en/")
    assert is_below("https://a.example/en/x", "https://a.example/en")
    assert not is_below("https://a.example/english", "https://a.example/en")


# --- links ------------------------------------------------------------------------------------------------------------


def test_the_links_of_an_index_are_exact_each_once_and_without_fragments() -> None:
    text = (
        "# X\n- [A](https://a.example/x#y): and https://b.example/z.\n- [B](../rel.md)\n- [A again](https://A.example/x)\n"
        "<https://c.example/(d)> [P](https://p.example/w_(x)) [bad](mailto:a@b) [creds](https://u@a.example/) [s](a b)\n"
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


def test_an_index_of_too_many_links_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._indexes.MOST_LINKS", 10)
    text = "\n".join(f"- [x](https://a.example/{number})" for number in range(50))
    assert len(list(links_of(text, BASE))) == 10
