"""URL parsing: credentials, IDN, spellings of loopback addresses, ports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.fetch import FetchError, Target, parse_url
from procontext.fetch._urls import resolve_redirect

PLAIN = [
    ("https://docs.example.com", Target("https", "docs.example.com", 443, "/")),
    ("HTTP://Docs.Example.COM./a?b=c#d", Target("http", "docs.example.com", 80, "/a?b=c")),
    ("https://docs.example.com:8443/a", Target("https", "docs.example.com", 8443, "/a")),
    ("http://1.2.3.4/x", Target("http", "1.2.3.4", 80, "/x")),
    ("http://[2606:4700:0::1]:81/", Target("http", "2606:4700::1", 81, "/")),
    ("https://xn--bcher-kva.example/", Target("https", "xn--bcher-kva.example", 443, "/")),
    ("https://a.example/b%20c/ü?q=ä", Target("https", "a.example", 443, "/b%20c/%C3%BC?q=%C3%A4")),
    ("https://evil.example#@docs.example.com/", Target("https", "evil.example", 443, "/")),
]

REJECTED = [
    # Credentials.
    ("https://user:pass@docs.example.com/", "not_allowed", "user name or password"),
    ("https://docs.example.com@evil.example/", "not_allowed", "user name or password"),
    ("https://@docs.example.com/", "not_allowed", "user name or password"),
    # Loopback by other spellings.
    ("http://127.1/", "not_allowed", "ends in a number"),
    ("http://2130706433/", "not_allowed", "ends in a number"),
    ("http://0x7f000001/", "not_allowed", "ends in a number"),
    ("http://0x7f.0.0.1/", "not_allowed", "ends in a number"),
    ("http://0177.0.0.1/", "not_allowed", "ends in a number"),
    ("http://127.0.0.1.0x/", "not_allowed", "ends in a number"),
    ("http://[::ffff:127.0.0.1%25lo]/", "not_allowed", "not a plain IPv6"),
    ("http://127。0。0。1/", "not_allowed", "ASCII"),
    ("http://①②⑦.⓪.⓪.①/", "not_allowed", "ASCII"),
    ("http://%6cocalhost/", "not_allowed", "not a plain host name"),
    ("http://loc%61lhost/", "not_allowed", "not a plain host name"),
    # IDN and invalid names.
    ("https://bücher.example/", "not_allowed", "xn--"),
    ("https://docs.exаmple.com/", "not_allowed", "ASCII"),  # the a is Cyrillic
    ("https://-a.example/", "not_allowed", "not a plain host name"),
    ("https://a..example/", "not_allowed", "not a plain host name"),
    (f"https://{'a' * 64}.example/", "not_allowed", "not a plain host name"),
    ("https://a,b.example/", "not_allowed", "not a plain host name"),
    # Not URLs.
    ("ftp://docs.example.com/", "invalid", "http or https"),
    ("file:///etc/passwd", "invalid", "http or https"),
    ("docs.example.com/a", "invalid", "http or https"),
    ("", "invalid", "http or https"),
    ("https:///a", "invalid", "has no host"),
    ("https://docs.example.com:0/", "invalid", "port 0"),
    ("https://docs.example.com:99999/", "invalid", "invalid URL"),
    ("https://docs.example.com:http/", "invalid", "invalid URL"),
    ("https://[::1/", "invalid", "invalid URL"),
    ("https://docs.example.com\\@evil.example/", "invalid", "backslash"),
    ("https://docs.example.com/a b", "invalid", "space"),
    ("https://docs.exam\tple.com/", "invalid", "control"),
    ("https://docs.example.com/\ud800", "invalid", "control"),
    ("https://docs.example.com/\r\nHost: evil", "invalid", "control"),
    (f"https://docs.example.com/{'a' * 2048}", "invalid", "2048"),
]


def test_plain_urls() -> None:
    for url, expected in PLAIN:
        assert parse_url(url) == expected, url


def test_other_spellings_are_rejected(subtests: pytest.Subtests) -> None:
    for url, reason, problem in REJECTED:
        with subtests.test(url=url):
            with pytest.raises(FetchError) as caught:
                parse_url(url)
            assert caught.value.reason == reason
            assert problem in caught.value.detail
            assert problem in str(caught.value)


def test_url_is_normalized() -> None:
    assert parse_url("HTTPS://A.example:443#x").url == "https://a.example/"
    assert parse_url("http://[::1]:81/x").url == "http://[::1]:81/x"
    assert parse_url("https://a.example/").is_encrypted
    assert not parse_url("http://a.example/").is_encrypted


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
def test_parsing_is_idempotent(text: str) -> None:
    try:
        target = parse_url(f"http://{text}")
    except FetchError:
        return
    assert parse_url(target.url) == target
    assert target.host.isascii()


def test_redirects_are_relative() -> None:
    base = parse_url("https://a.example/x/y")
    assert resolve_redirect(base, "../z").url == "https://a.example/z"
    assert resolve_redirect(base, "//b.example/q").url == "https://b.example/q"
    with pytest.raises(FetchError, match="http or https") as caught:
        resolve_redirect(base, "file:///etc/passwd")
    assert caught.value.reason == "not_allowed"  # the requested URL was valid
    with pytest.raises(FetchError, match="redirect to an invalid URL"):
        resolve_redirect(base, "https://[::1/")


UNENCODED_REDIRECTS: list[tuple[str, str]] = [
    ("/a b", "/a%20b"),
    ("/\u00e9", "/%C3%A9"),
    ("/é".encode().decode("latin-1"), "/%C3%A9"),
    ("/%C3%A9", "/%C3%A9"),
    (" /z ", "/z"),
]


def test_unencoded_redirects() -> None:
    """Some hosts send spaces and UTF-8 in Location, and browsers follow them."""
    for location, path in UNENCODED_REDIRECTS:
        assert resolve_redirect(parse_url("https://a.example/x"), location).path == path, location
