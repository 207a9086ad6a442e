"""Server URLs: levels, variables, and the author's own URL."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.openapi import OpenApiError
from jackstay.openapi._servers import check_base_url, check_server
from scripted.openapi_documents import document, get, read_one, read_problem

REGION = {
    "url": "https://{region}.example.org/{base}",
    "variables": {"region": {"default": "eu", "enum": ["eu", "us"]}, "base": {"default": "v1"}},
}


def test_the_nearest_level_applies() -> None:
    top, item, own = ([{"url": f"https://{name}"}, {"url": "other"}] for name in ("top", "item", "own"))
    paths: Any = {"/x": {**get(servers=own), "servers": item}}
    assert read_one(document(paths, servers=top)).server == "https://own"
    del paths["/x"]["get"]["servers"]
    assert read_one(document(paths, servers=top)).server == "https://item"
    del paths["/x"]["servers"]
    assert read_one(document(paths, servers=top)).server == "https://top"
    assert read_one(document(paths)).server == "/"


def test_variables() -> None:
    root = document({"/x": get()}, servers=[REGION])
    assert read_one(root).server == "https://eu.example.org/v1"
    assert read_one(root, variables={"region": "us", "base": "v2"}).server == "https://us.example.org/v2"
    assert "must be one of 'eu', 'us', not 'fr'" in str(read_problem(root, variables={"region": "fr"}))
    missing = document({"/x": get()}, servers=[{"url": "https://{host}"}])
    assert "has no default: pass server_variables={'host': ...}" in str(read_problem(missing))


def test_a_url_has_no_slash_at_the_end() -> None:
    assert check_server("https://a/v1/", "#") == check_base_url("https://a/v1/") == "https://a/v1"


@pytest.mark.parametrize(
    ("url", "message"),
    [("/v1", "is relative: pass base_url="), ("ftp://a", "is not an HTTP URL"), ("https://a/?x=1", "without a query")],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(OpenApiError, match=message):
        check_server(url, "#")
    with pytest.raises(UsageError, match="base_url must be an HTTP URL"):
        check_base_url(url)
