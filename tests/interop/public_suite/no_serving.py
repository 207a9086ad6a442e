"""A plugin for the suite of apcore-mcp: no test serves, because what the tests replace to end a server is not there."""

from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def no_serving() -> Iterator[None]:
    """Make every server fail to run."""
    error = RuntimeError("a test of the suite tried to serve")
    with (
        mock.patch("jackstay.server.Server.run", side_effect=error),
        mock.patch("jackstay.server.Server.serve_stdio", side_effect=error),
    ):
        yield
