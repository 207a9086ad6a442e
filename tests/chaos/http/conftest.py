"""The servers that harm is sent to, for every file that sends some."""

from chaos.http.harm import owned, server

__all__ = ["owned", "server"]
