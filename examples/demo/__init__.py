"""`make demo`: a client that holds, shown with real processes in about a minute.

Callers call a server through `connect()`; the server is killed, stopped and broken; at the end its own ledger is laid
beside what the callers were told. Nothing that is shown is written down beforehand.

    victim.py      the server, with its ledger: a process of its own
    callers.py     who calls, and in which manner
    witness.py     what the client's telemetry tells
    chronicle.py   what has happened so far
    ledger.py      what was told beside what ran
    story.py       the scenes: what is done to the server, and when
    picture.py     how a moment looks, in rows of characters
    terminal.py    where it is shown: a terminal, or plain lines in a pipe
    film.py        the same pictures as an SVG that plays
"""
