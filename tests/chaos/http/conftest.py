"""Fixtures: the servers of the security tests."""

from chaos.http.harm import owned, server

__all__ = ["owned", "server"]
