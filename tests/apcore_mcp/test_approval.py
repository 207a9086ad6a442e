"""A person's consent: what is asked, and what is said when nobody can be."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Registry

from apcore_mcp.approval import MAX_SHOWN, question, refusal_of
from apcore_mcp.catalogue import Catalogue, Entry
from mooring.errors import CapabilityError


@pytest.fixture
def remove(registry: Registry) -> Entry:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    entry = catalogue.find("user.remove")
    assert entry is not None
    return entry


def test_the_question_says_what_would_run_with_what(remove: Entry) -> None:
    """Settled: the arguments, with x-sensitive ones redacted; the first line of the description."""
    said = question(remove, {"user": "ann", "password": "hunter2"})
    assert said.startswith("Run user.remove?\n\nRemove a user\n\nArguments:\n{")
    assert '"user": "ann"' in said
    assert "hunter2" not in said


def test_a_question_nobody_would_read_is_cut(remove: Entry) -> None:
    said = question(remove, {"user": "x" * 10_000, "password": ""})
    assert len(said) < MAX_SHOWN + 200
    assert "characters in all)" in said


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (True, None),
        (False, "Approval denied: user.remove was not run."),
        (1, "Approval denied: user.remove was not run."),
        (CapabilityError("elicitation", "no"), "cannot be asked (no elicitation)"),
        (RuntimeError("line down"), "could not be asked for"),
    ],
)
def test_only_a_plain_yes_is_consent(
    remove: Entry, kinds: SimpleNamespace, answer: Any, words: str | None
) -> None:
    """Settled: fail closed."""
    refusal = asyncio.run(refusal_of(remove, {}, kinds.Caller(answer=answer)))
    assert (refusal is None) if words is None else (refusal is not None and words in refusal)


def test_a_question_of_the_stateless_era_passes_through(remove: Entry, kinds: SimpleNamespace) -> None:
    """It is no Exception: the handler is run again with the answer (2026-07-28)."""

    class Unwinds(BaseException):
        pass

    with pytest.raises(Unwinds):
        asyncio.run(refusal_of(remove, {}, kinds.Caller(answer=Unwinds())))
