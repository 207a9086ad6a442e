"""Registrable domains by the public suffix list (design, section 1, row "allowlist")."""

import re
from importlib.resources import files

import pytest

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


@pytest.mark.parametrize(("host", "expected"), ROWS)
def test_the_registrable_domain_of_a_host(host: str, expected: str | None) -> None:
    assert registrable_domain(host) == expected


def test_rules_are_plain_wildcards_and_exceptions() -> None:
    rules = SuffixRules(["// comment", "", "test", "*.wild.test", "!not.wild.test"])
    assert rules.registrable_domain("a.b.test") == "b.test"
    assert rules.registrable_domain("a.b.wild.test") == "a.b.wild.test"
    assert rules.registrable_domain("b.wild.test") is None
    assert rules.registrable_domain("a.not.wild.test") == "not.wild.test"


def test_the_snapshot_says_its_date_and_licence() -> None:
    head = files("procontext.fetch").joinpath("public_suffixes.txt").read_text(encoding="ascii")[:400]
    assert re.match(r"// Public suffix list, 20\d\d-\d\d-\d\d ", head)
    assert "Mozilla Public License 2.0" in head
