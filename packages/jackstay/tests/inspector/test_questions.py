"""Elicitation and sampling, answered on the page."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.inspector._questions import Answer
from scripted.inspected import Inspected, with_inspected


async def question(inspected: Inspected) -> dict[str, Any]:
    """Wait until the server has a question."""
    async for event in inspected.inspection.events.follow():
        if b"event: question\n" in event:
            break
    found: dict[str, Any] = inspected.events("question")[-1]
    return found


@with_inspected
async def test_a_form(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("survey"))
    opened = await question(inspected)
    assert (opened["kind"], opened["params"]["message"]) == ("elicitation", "Who are you?")
    assert opened["params"]["requestedSchema"]["required"] == ["name"]
    await inspected.post("answer", question=opened["question"], action="accept", content={"name": "Ann"})
    assert (await calling)[-1]["texts"] == ["accept {'name': 'Ann'}"]
    assert inspected.events("answered") == [{"question": opened["question"]}]


@with_inspected
async def test_a_declined_form(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("survey"))
    opened = await question(inspected)
    await inspected.post("answer", question=opened["question"], action="decline")
    assert (await calling)[-1]["texts"][0].startswith("decline")


@with_inspected
async def test_a_message_of_a_model(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("write"))
    opened = await question(inspected)
    assert (opened["kind"], opened["params"]["maxTokens"]) == ("sampling", 10)
    await inspected.post("answer", question=opened["question"], action="accept", text="Roses are red.")
    assert (await calling)[-1]["texts"] == ["Roses are red."]


@with_inspected
async def test_a_rejected_message(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("write"))
    opened = await question(inspected)
    await inspected.post("answer", question=opened["question"], action="decline")
    end = (await calling)[-1]
    assert (end["type"], end["may_have_run"]) in (("failed", True), ("failed", None), ("failed", False))
    assert "rejected" in end["message"]


@with_inspected
async def test_answers_that_fit_no_question(inspected: Inspected) -> None:
    expected = {"error": "this question is not pending: it was answered, or its call has ended"}
    assert await inspected.post("answer", 400, question="x", action="accept") == expected
    assert "Invalid enum value" in (await inspected.post("answer", 400, question="x", action="maybe"))["error"]
    with pytest.raises(UsageError):
        inspected.inspection.questions.answer(1, Answer("accept"))


@with_inspected
async def test_a_closed_session_cancels_its_questions(inspected: Inspected) -> None:
    calling = asyncio.ensure_future(inspected.call("survey"))
    await question(inspected)
    await inspected.inspection.close()
    assert (await calling)[-1]["type"] == "failed"
    assert repr(inspected.inspection.questions) == "<Questions 0 open>"
