"""Rows that decide how operations are served."""

import re
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.openapi import Route
from jackstay.openapi._routes import DEFAULT, find_route

OPERATION = ("GET", "/users/{id}/keys", ("keys", "users"), "users/list-keys")


@pytest.mark.parametrize(
    ("row", "matches"),
    [
        (Route(), True),
        (Route("get"), True),
        (Route(("POST", "GET")), True),
        (Route("POST"), False),
        (Route(path="/users/*"), True),
        (Route(path="/users"), False),
        (Route(path="/users/{id}/keys"), True),
        (Route(path=re.compile(r"/users/.*")), True),
        (Route(path=re.compile(r"/users")), False),
        (Route(tag="keys"), True),
        (Route(tag="key"), False),
        (Route(operation_id="*/list-*"), True),
        (Route(operation_id="users.list-keys"), False),
        (Route("GET", "/users/*", "keys", "users/*"), True),
        (Route("GET", "/users/*", "nothing", "users/*"), False),
    ],
)
def test_all_conditions_must_match(row: Route, matches: bool) -> None:
    assert row.matches(*OPERATION) is matches


def test_the_first_row_that_matches_applies() -> None:
    rows = [Route("POST"), Route(tag="keys", serve="nothing"), Route()]
    assert find_route(rows, *OPERATION) is rows[1]
    assert find_route(rows[:1], *OPERATION) is DEFAULT


@pytest.mark.parametrize("options", [{"serve": "resources"}, {"timeout": 0}])
def test_a_bad_row(options: Any) -> None:
    with pytest.raises(UsageError, match="Route"):
        Route(**options)
