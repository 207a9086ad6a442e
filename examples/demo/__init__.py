"""`make demo`: a client and a server that is killed, hangs and fails to start, in about a minute.

At the end, the ledger of the server is compared with the outcomes that the callers received.
"""

# target_server.py  the server, with its ledger: a separate process
# callers.py        the callers and their options
# observer.py       copies the client's telemetry to the log
# log.py            the events so far
# ledger.py         compares outcomes with the ledger
# scenario.py       the steps: the faults of the server, and when they happen
# picture.py        draws the log as rows of characters
# terminal.py       shows the picture on a terminal, or plain lines in a pipe
# recording.py      the same pictures as an animated SVG
