"""One Redis for all tests that do not stop it."""

import sys
from collections.abc import Iterator

import pytest

from peers.redis_server import RedisServer

# `make test` installs Redis on Debian.
collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server
