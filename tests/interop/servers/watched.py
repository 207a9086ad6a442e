"""Runs a server for a client and writes down how it ended: `watched.py LEDGER COMMAND...`.

A client that starts its server itself cannot report its exit code. This wrapper does: the server
has the client's own pipes, and nothing is read or written here. If the client kills what it started, no ledger is
written, which differs from a server that exited on its own. Standard library only.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ledger, *command = sys.argv[1:]
code = subprocess.run(command, check=False).returncode
# The clock is the system's, the same for every process: the client writes down when it began to close.
Path(ledger).write_text(json.dumps({"code": code, "ended": time.clock_gettime(time.CLOCK_MONOTONIC)}), encoding="utf-8")
sys.exit(code)
