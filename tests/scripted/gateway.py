"""A gateway whose servers are scripted."""

from pathlib import Path
from typing import Any

import pytest

from jackstay.client import Config
from jackstay.testing import ScriptedPeer


def tools(*names: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}}
    return {"tools": [{"name": name, "inputSchema": schema} for name in names]}


class Office:
    """A gateway for the servers `a` and `b`, and later `c`."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.peers: dict[str, list[ScriptedPeer]] = {}
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.responses: dict[str, Any] = {}
        monkeypatch.setattr(Config, "target", self.target)

    def target(self, name: str, **_: Any) -> Any:
        return ScriptedTarget(self, name)

    def write(self, *names: str, more: str = "", **entries: str) -> None:
        rows = [f'[servers.{name}]\ncommand = "x"\n{entries.get(name, "")}\n' for name in names]
        self.path.write_text("\n".join(rows) + more)

    def last(self, name: str) -> ScriptedPeer:
        return self.peers[name][-1]


class ScriptedTarget:
    """Starts a new scripted server for every connection, like a command."""

    def __init__(self, office: Office, name: str) -> None:
        self.office, self.name, self.is_http, self.init_timeout = office, name, False, None

    async def open(self, *args: Any) -> Any:
        peer = ScriptedPeer(capabilities=self.office.capabilities, name=self.name)
        peer.reopens = False
        peer.on["tools/list"] = tools("t", "u")
        peer.on["tools/call"] = {"content": [{"type": "text", "text": self.name}]}
        peer.on.update(self.office.responses)
        self.office.peers.setdefault(self.name, []).append(peer)
        await peer.open()
        return await peer.target.open(*args)
