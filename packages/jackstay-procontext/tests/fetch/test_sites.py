"""Which sites the rows allow, and with which headers (design, section 1, row "allowlist"; section 2, point 5)."""

import pytest

from procontext.fetch import Sites, read_url
from procontext.models import Library

ROWS = [
    Library(id="langchain", name="LangChain", docs_url="https://docs.langchain.com"),
    Library(id="mine", name="Mine", docs_url="https://me.github.io/mine/"),
    Library(id="mine-two", name="Mine 2", docs_url="https://me.github.io/mine/two"),
    Library(id="odd", name="Odd", docs_url="https://docs.odd.dev:8443/x"),
    Library(
        id="sdk",
        name="SDK",
        llms_txt_url="http://docs.corp/sdk/llms.txt",
        headers=(("Authorization", "Bearer s"),),
    ),
    Library(id="number", name="Number", docs_url="http://10.0.0.7:8080/"),
    Library(id="wrong", name="Wrong", docs_url="ftp://wrong.example/"),
    Library(id="none", name="None"),
    Library(id="locked", name="Locked", docs_url="ftp://x.dev/", headers=(("A", "b"),)),
    Library(
        id="sdk-two", name="SDK 2", docs_url="http://docs.corp/two/", headers=(("Authorization", "Bearer t"),)
    ),
]

ALLOWED = [
    "https://docs.langchain.com/a",
    "https://api.python.langchain.com/b",
    "https://langchain.com/",
    "https://docs.corp/sdk/x",
    "https://me.github.io/anything",
    "https://docs.odd.dev:8443/",
    "https://docs.odd.dev/",
    "https://other.odd.dev/",
    "http://docs.corp/sdk/x",
    "http://10.0.0.7:8080/x",
]

REFUSED = [
    "https://langchain.com.evil.example/",
    "https://notlangchain.com/",
    "https://docs.langchain.com:8443/",
    "https://you.github.io/",
    "https://github.io/",
    "https://other.odd.dev:8443/",
    "http://other.corp/",
    "http://10.0.0.8:8080/",
    "http://10.0.0.7:8081/",
    "https://wrong.example/",
    # Rows with https: nothing of them goes over the network in clear.
    "http://langchain.com/",
    "http://docs.langchain.com/",
    "http://docs.odd.dev:8443/",
    "http://me.github.io/mine/",
]


@pytest.mark.parametrize("url", ALLOWED)
def test_a_site_of_a_row_is_allowed(url: str) -> None:
    assert Sites(ROWS).allows(read_url(url))


@pytest.mark.parametrize("url", REFUSED)
def test_any_other_site_is_refused(url: str) -> None:
    assert not Sites(ROWS).allows(read_url(url))


def test_headers_are_bound_to_the_origin_of_their_source() -> None:
    sites = Sites(ROWS)
    assert sites.headers(read_url("http://docs.corp/other")) == (("Authorization", "Bearer s"),)
    assert sites.headers(read_url("http://docs.corp/two/x")) == (("Authorization", "Bearer t"),)
    assert sites.headers(read_url("http://docs.corp/sdk/x")) == (("Authorization", "Bearer s"),)
    for url in ("https://docs.corp/", "http://docs.corp:8080/", "http://langchain.com/"):
        assert sites.headers(read_url(url)) == ()


def test_the_owner_of_an_address_is_the_row_with_the_longest_folder() -> None:
    sites = Sites(ROWS)
    assert sites.owner(read_url("https://me.github.io/mine/two/x")) == "mine-two"
    assert sites.owner(read_url("https://me.github.io/mine/twofold")) == "mine"
    assert sites.owner(read_url("http://docs.corp/sdk/page")) == "sdk"
    assert sites.owner(read_url("https://me.github.io/other")) is None
    assert sites.owner(read_url("https://unknown.example/")) is None
