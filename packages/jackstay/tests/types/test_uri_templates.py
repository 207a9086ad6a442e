"""Expansion of URI templates: the examples of RFC 6570, section 3.2."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.types import ResourceTemplate

# RFC 6570, section 3.2.
VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": 6,
    "x": 1024,
    "y": 768,
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

EXAMPLES = [
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,y}", "1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{undef,y}", "?768"),
    ("{var:3}", "val"),
    ("{var:30}", "value"),
    ("{list}", "red,green,blue"),
    ("{list*}", "red,green,blue"),
    ("{keys}", "semi,%3B,dot,.,comma,%2C"),
    ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("{+path}/here", "/foo/bar/here"),
    ("{+path:6}/here", "/foo/b/here"),
    ("{+keys*}", "semi=;,dot=.,comma=,"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("X{.var}", "X.value"),
    ("www{.dom*}", "www.example.com"),
    ("X{.empty_keys}", "X"),
    ("{/who}", "/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/var,empty}", "/value/"),
    ("{/list}", "/red,green,blue"),
    ("{/list*}", "/red/green/blue"),
    ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
    ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{;hello:5}", ";hello=Hello"),
    ("{;list*}", ";list=red;list=green;list=blue"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?list}", "?list=red,green,blue"),
    ("{?list*}", "?list=red&list=green&list=blue"),
    ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&keys}", "&keys=semi,%3B,dot,.,comma,%2C"),
]


@pytest.mark.parametrize(("template", "expected"), EXAMPLES)
def test_examples_of_the_rfc(template: str, expected: str) -> None:
    used = {name: value for name, value in VALUES.items() if name in _names(template)}
    assert ResourceTemplate(uri_template=template, name="t").expand(used) == expected


def _names(template: str) -> set[str]:
    inside = [part.split("}")[0] for part in template.split("{")[1:]]
    return {name.strip("+#./;?&*").split(":")[0] for part in inside for name in part.split(",")}


def test_errors_name_the_variable() -> None:
    template = ResourceTemplate(uri_template="x://{a}{?b}", name="t")
    assert template.expand({"a": True}) == "x://true"
    with pytest.raises(UsageError, match=r"has no variable 'c'; its variables: a, b"):
        template.expand({"a": 1, "c": 2})
    with pytest.raises(UsageError, match="invalid expression"):
        ResourceTemplate(uri_template="x://{a b}", name="t").expand({})
    with pytest.raises(UsageError, match="unbalanced braces"):
        ResourceTemplate(uri_template="x://{a", name="t").expand({})
