"""The allowlist and the request headers of private sources."""

from procontext.fetch import Sites, parse_url
from procontext.models import Library

ROWS = [
    Library(id="langchain", name="LangChain", docs_url="https://docs.langchain.com"),
    Library(id="own", name="Own", docs_url="https://me.github.io/own/"),
    Library(id="own-two", name="Own 2", docs_url="https://me.github.io/own/two"),
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
    Library(id="sdk-two", name="SDK 2", docs_url="http://docs.corp/two/", headers=(("Authorization", "Bearer t"),)),
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

REJECTED = [
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
    # Sites of libraries with https URLs are never fetched over plain HTTP.
    "http://langchain.com/",
    "http://docs.langchain.com/",
    "http://docs.odd.dev:8443/",
    "http://me.github.io/own/",
]


def test_allowed_sites() -> None:
    for url in ALLOWED:
        assert Sites(ROWS).allows(parse_url(url)), url


def test_other_sites_are_rejected() -> None:
    for url in REJECTED:
        assert not Sites(ROWS).allows(parse_url(url)), url


def test_headers_are_bound_to_the_origin() -> None:
    sites = Sites(ROWS)
    assert sites.headers(parse_url("http://docs.corp/other")) == (("Authorization", "Bearer s"),)
    assert sites.headers(parse_url("http://docs.corp/two/x")) == (("Authorization", "Bearer t"),)
    assert sites.headers(parse_url("http://docs.corp/sdk/x")) == (("Authorization", "Bearer s"),)
    for url in ("https://docs.corp/", "http://docs.corp:8080/", "http://langchain.com/"):
        assert sites.headers(parse_url(url)) == ()


def test_owner_is_the_library_with_the_deepest_folder() -> None:
    sites = Sites(ROWS)
    assert sites.owner(parse_url("https://me.github.io/own/two/x")) == "own-two"
    assert sites.owner(parse_url("https://me.github.io/own/twofold")) == "own"
    assert sites.owner(parse_url("http://docs.corp/sdk/page")) == "sdk"
    assert sites.owner(parse_url("https://me.github.io/other")) is None
    assert sites.owner(parse_url("https://unknown.example/")) is None
