"""The server program of this directory as a process, with its ledger, memory and descriptors."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from peers.http_process import Serving

PROGRAM = Path(__file__).with_name("program.py")


class LedgerServer(Serving):
    """The process. As a context manager it is started on entry and killed on exit."""

    def __init__(self, directory: Path, **options: Any) -> None:
        given = json.dumps({"port": 0, "directory": str(directory), **options})
        super().__init__(sys.executable, "-W", "error::RuntimeWarning", str(PROGRAM), given)
        self.directory = directory
        self.parser: str = options.get("parser", "httptools")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def runs(self) -> Counter[str]:
        """How often each nonce was recorded."""
        path = self.directory / "ledger"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def forget_runs(self) -> None:
        """Clear the ledger."""
        os.truncate(self.directory / "ledger", 0)

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process has ended")

    @property
    def descriptors(self) -> list[str]:
        """The open file descriptors of the process."""
        return os.listdir(f"/proc/{self.process.pid}/fd")

    @property
    def workers(self) -> set[int]:
        """The process ids of its workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in children.split()}
