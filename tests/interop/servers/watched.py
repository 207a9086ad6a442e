"""Run a server for a client and record its exit code: `watched.py LEDGER COMMAND...`.

A client that starts its server cannot report the exit code of it. This wrapper can: the server inherits the pipes of
the client, and the wrapper neither reads nor writes. If the client kills the wrapper, there is no ledger, so that case
can be distinguished from a server that exited by itself. Standard library only.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ledger, *command = sys.argv[1:]
code = subprocess.run(command, check=False).returncode
# This clock is the same for every process. The client records when it started to close.
Path(ledger).write_text(json.dumps({"code": code, "ended": time.clock_gettime(time.CLOCK_MONOTONIC)}), encoding="utf-8")
sys.exit(code)
