"""Registrable domains by the public suffix list."""

import re
from importlib.resources import files

from procontext.fetch import registrable_domain
from procontext.fetch._suffixes import SuffixRules

ROWS = [
    ("docs.langchain.com", "langchain.com"),
    ("langchain.com", "langchain.com"),
    ("com", None),
    ("a.b.co.uk", "b.co.uk"),
    ("co.uk", None),
    ("me.github.io", "me.github.io"),
    ("x.me.github.io", "me.github.io"),
    ("github.io", None),
    ("site.vercel.app", "site.vercel.app"),
    ("vercel.app", None),
    ("flask.readthedocs.io", "flask.readthedocs.io"),
    ("raw.githubusercontent.com", "raw.githubusercontent.com"),
    ("x.y.ck", "x.y.ck"),
    ("y.ck", None),
    ("www.ck", "www.ck"),
    ("a.www.ck", "www.ck"),
    ("a.b.xn--p1ai", "b.xn--p1ai"),
    ("localhost", None),
    ("docs.corp", None),
]


def test_registrable_domain() -> None:
    for host, expected in ROWS:
        assert registrable_domain(host) == expected, host


def test_kinds_of_rules() -> None:
    rules = SuffixRules(["// comment", "", "test", "*.wild.test", "!not.wild.test"])
    assert rules.registrable_domain("a.b.test") == "b.test"
    assert rules.registrable_domain("a.b.wild.test") == "a.b.wild.test"
    assert rules.registrable_domain("b.wild.test") is None
    assert rules.registrable_domain("a.not.wild.test") == "not.wild.test"


def test_snapshot_has_date_and_licence() -> None:
    head = files("procontext.fetch").joinpath("public_suffixes.txt").read_text(encoding="ascii")[:400]
    assert re.match(r"// Public suffix list, 20\d\d-\d\d-\d\d ", head)
    assert "Mozilla Public License 2.0" in head
