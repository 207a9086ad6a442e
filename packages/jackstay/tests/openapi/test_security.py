"""Security schemes and credentials."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.openapi import Document
from jackstay.openapi._security import Scheme, apply_secret, check_credentials, choose_schemes, read_schemes
from scripted.openapi_documents import document, get, parameter, read_one, read_problem

SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "digest": {"type": "http", "scheme": "digest"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "x"},
    "tls": {"type": "mutualTLS"},
}


def root(paths: Any = None, **more: Any) -> dict[str, Any]:
    return document(paths or {}, components={"securitySchemes": SCHEMES}, **more)


KNOWN = read_schemes(Document(root()))


@pytest.mark.parametrize(
    ("name", "secret", "expected"),
    [
        ("header", "s", ("header", "X-Key", "s")),
        ("query", "s", ("query", "key", "s")),
        ("cookie", "s", ("cookie", "sid", "s")),
        ("basic", ("ada", "p:w"), ("header", "Authorization", "Basic YWRhOnA6dw==")),
        ("basic", "ada:pw", ("header", "Authorization", "Basic YWRhOnB3")),
        ("bearer", "t", ("header", "Authorization", "Bearer t")),
        ("oauth", "t", ("header", "Authorization", "Bearer t")),
        ("oidc", "t", ("header", "Authorization", "Bearer t")),
    ],
)
def test_where_a_secret_is_written(name: str, secret: Any, expected: tuple[str, str, str]) -> None:
    assert apply_secret(KNOWN[name], secret) == expected


@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        ({"heder": "x"}, "unknown security scheme 'heder'; did you mean 'header'?"),
        ({"zzz": "x"}, "the document has: header, query"),
        ({"digest": "x"}, "'digest' is not supported; configure it in your own client"),
        ({"tls": "x"}, "is not supported"),
        ({"header": ("a", "b")}, "'header' needs a str without control characters"),
        ({"bearer": ""}, "needs a str"),
        ({"bearer": "a\nb"}, "needs a str"),
        ({"basic": ("a", "b", "c")}, "'basic' needs a tuple (name, password)"),
        ({"basic": ("a:b", "c")}, "needs a tuple"),
    ],
)
def test_bad_credentials(credentials: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_credentials(credentials, KNOWN)
    assert message in str(caught.value)
    check_credentials({"bearer": lambda: "later"}, KNOWN)


def test_the_first_alternative_with_all_credentials_is_chosen() -> None:
    a, b = Scheme("a", "bearer"), Scheme("b", "bearer")
    assert choose_schemes(((a, b), (b,), ()), {"b"}) == (b,)
    assert choose_schemes(((), (a, b)), {"a", "b"}) == (a, b)
    assert choose_schemes(((a,),), {"b"}) == ()


def test_an_operation_replaces_the_security_of_the_document() -> None:
    own = {"/x": get(security=[{"basic": []}, {}])}
    assert [[row.name for row in rows] for rows in read_one(root(own, security=[{"oauth": []}])).security] == [
        ["basic"],
        [],
    ]
    inherited = read_one(root({"/x": get()}, security=[{"header": [], "query": []}]))
    assert [row.name for row in inherited.security[0]] == ["header", "query"]
    assert read_one(root({"/x": get(security=[])}, security=[{"oauth": []}])).security == ()


def test_a_parameter_that_is_a_credential_is_hidden_if_the_author_provides_it() -> None:
    paths = {"/x": get(parameter("key"), parameter("x-key", "header"), parameter("sid"))}
    assert [row.name for row in read_one(root(paths), credentials=frozenset(["query", "header"])).parameters] == ["sid"]
    assert len(read_one(root(paths)).parameters) == 3


def test_bad_schemes() -> None:
    problem = read_problem(root({"/x": get(security=[{"none": []}])}))
    assert "GET /x: unknown security scheme 'none' (at #/paths/~1x/get/security/0/none)" in str(problem)
    broken = document({}, components={"securitySchemes": {"k": {"type": "apiKey", "in": "path"}}})
    with pytest.raises(UsageError, match="the API key 'k' needs a name"):
        read_schemes(Document(broken))
