"""Reading an address (design, sections 1 and 4: credentials, IDN, odd spellings of loopback, ports)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.fetch import FetchError, Target, read_url
from procontext.fetch._urls import follow

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

REFUSED = [
    # Credentials.
    ("https://user:pass@docs.example.com/", "not_allowed", "user name or password"),
    ("https://docs.example.com@evil.example/", "not_allowed", "user name or password"),
    ("https://@docs.example.com/", "not_allowed", "user name or password"),
    # Loopback by other spellings.
    ("http://127.1/", "not_allowed", "is a number"),
    ("http://2130706433/", "not_allowed", "is a number"),
    ("http://0x7f000001/", "not_allowed", "is a number"),
    ("http://0x7f.0.0.1/", "not_allowed", "is a number"),
    ("http://0177.0.0.1/", "not_allowed", "is a number"),
    ("http://127.0.0.1.0x/", "not_allowed", "is a number"),
    ("http://[::ffff:127.0.0.1%25lo]/", "not_allowed", "no plain IPv6"),
    ("http://127。0。0。1/", "not_allowed", "ASCII"),
    ("http://①②⑦.⓪.⓪.①/", "not_allowed", "ASCII"),
    ("http://%6cocalhost/", "not_allowed", "no plain host name"),
    ("http://loc%61lhost/", "not_allowed", "no plain host name"),
    # IDN, and names that are none.
    ("https://bücher.example/", "not_allowed", "xn--"),
    ("https://docs.exаmple.com/", "not_allowed", "ASCII"),  # the a is Cyrillic: that is the trick
    ("https://-a.example/", "not_allowed", "no plain host name"),
    ("https://a..example/", "not_allowed", "no plain host name"),
    (f"https://{'a' * 64}.example/", "not_allowed", "no plain host name"),
    ("https://a,b.example/", "not_allowed", "no plain host name"),
    # No addresses at all.
    ("ftp://docs.example.com/", "invalid", "http or https"),
    ("file:///etc/passwd", "invalid", "http or https"),
    ("docs.example.com/a", "invalid", "http or https"),
    ("", "invalid", "http or https"),
    ("https:///a", "invalid", "names no host"),
    ("https://docs.example.com:0/", "invalid", "no port 0"),
    ("https://docs.example.com:99999/", "invalid", "no address"),
    ("https://docs.example.com:http/", "invalid", "no address"),
    ("https://[::1/", "invalid", "no address"),
    ("https://docs.example.com\\@evil.example/", "invalid", "backslash"),
    ("https://docs.example.com/a b", "invalid", "space"),
    ("https://docs.exam\tple.com/", "invalid", "control"),
    ("https://docs.example.com/\ud800", "invalid", "control"),
    ("https://docs.example.com/\r\nHost: evil", "invalid", "control"),
    (f"https://docs.example.com/{'a' * 2048}", "invalid", "2048"),
]


@pytest.mark.parametrize(("url", "expected"), PLAIN)
def test_a_plain_address_is_read(url: str, expected: Target) -> None:
    assert read_url(url) == expected


@pytest.mark.parametrize(("url", "reason", "said"), REFUSED)
def test_any_other_spelling_is_refused(url: str, reason: str, said: str) -> None:
    with pytest.raises(FetchError) as caught:
        read_url(url)
    assert caught.value.reason == reason
    assert said in caught.value.detail
    assert said in str(caught.value)


def test_what_was_read_is_written_in_one_spelling() -> None:
    assert read_url("HTTPS://A.example:443#x").url == "https://a.example/"
    assert read_url("http://[::1]:81/x").url == "http://[::1]:81/x"
    assert read_url("https://a.example/").is_encrypted
    assert not read_url("http://a.example/").is_encrypted


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
def test_any_text_is_read_or_refused_and_reading_again_changes_nothing(text: str) -> None:
    try:
        target = read_url(f"http://{text}")
    except FetchError:
        return
    assert read_url(target.url) == target
    assert target.host.isascii()


def test_a_redirect_is_read_relative_to_where_it_came_from() -> None:
    here = read_url("https://a.example/x/y")
    assert follow(here, "../z").url == "https://a.example/z"
    assert follow(here, "//b.example/q").url == "https://b.example/q"
    with pytest.raises(FetchError, match="http or https") as caught:
        follow(here, "file:///etc/passwd")
    assert caught.value.reason == "not_allowed"  # who asked wrote a good address
    with pytest.raises(FetchError, match="redirects to what is no address"):
        follow(here, "https://[::1/")


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a b", "/a%20b"),
        ("/\u00e9", "/%C3%A9"),
        ("/é".encode().decode("latin-1"), "/%C3%A9"),
        ("/%C3%A9", "/%C3%A9"),
        (" /z ", "/z"),
    ],
)
def test_a_redirect_may_hold_what_hosts_write_into_headers(location: str, path: str) -> None:
    """RFC 9110, 5.5: bytes. Some write spaces and UTF-8, and browsers follow."""
    assert follow(read_url("https://a.example/x"), location).path == path
