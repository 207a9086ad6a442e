"""`jackstay complete` and `jackstay prompts get`, with a server that has both."""

import sys
from collections.abc import Callable

from scripted.places import TESTS


def test_completions_and_prompts(jackstay: Callable) -> None:
    server = ("--", sys.executable, str(TESTS / "peers" / "eliciting_server.py"))
    done = jackstay("complete", "review", "language=p", "code=x", *server, peer=False)
    assert (done.code, done.out) == (0, "python\nperl\n")
    assert jackstay("complete", "review", "language=py", "--json", *server, peer=False).json["values"] == ["python"]
    done = jackstay("prompts", "get", "review", "code=x", *server, peer=False)
    assert (done.code, done.out) == (0, "user:\nReview x in py\n")
    assert jackstay("prompts", "get", "review", "code=x", "--json", *server, peer=False).json["messages"]


def test_missing_words_are_refused(jackstay: Callable) -> None:
    for words, reason in (
        (("complete",), "NAME is missing"),
        (("complete", "review"), "ARGUMENT=START is missing"),
        (("complete", "review", "code"), "expected KEY=VALUE"),
        (("prompts", "get"), "NAME is missing"),
        (("prompts", "get", "review", "code"), "expected KEY=VALUE"),
    ):
        done = jackstay(*words)
        assert (done.code, reason in done.err) == (2, True), words
