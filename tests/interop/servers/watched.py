"""Run a server for a client and record its exit code: `watched.py LEDGER COMMAND...`.

A client that starts its server cannot report the exit code of it. This wrapper can: the server inherits the pipes of
the client, and the wrapper neither reads nor writes. The server and its observer have a session of their own: a client
that kills the wrapper, because a busy machine took long, kills neither. The ledger is locked until it is complete.
Standard library only.
"""

import fcntl
import json
import os
import subprocess
import sys
import time

path, *command = sys.argv[1:]
with open(path, "w", encoding="utf-8") as ledger:
    fcntl.flock(ledger, fcntl.LOCK_EX)  # waits for the observer of an earlier server of the same client
    ledger.truncate()
    observer = os.fork()
    if observer == 0:
        os.setsid()
        code = subprocess.run(command, check=False).returncode
        # This clock is the same for every process. The client records when it started to close.
        json.dump({"code": code, "ended": time.clock_gettime(time.CLOCK_MONOTONIC)}, ledger)
        ledger.flush()
        os._exit(code)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(observer, 0)[1]))
