"""`client.elicitation`: a question for the person, in a form or at a URL."""

from jackstay.testing import on_fake_clock
from jackstay.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from scripted.peer import peered

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PLACE = {"message": "Go", "mode": "url", "url": "https://example.com/x", "elicitationId": "1"}


@on_fake_clock
async def test_both_kinds_of_questions_reach_the_handler() -> None:
    asked: list[ElicitRequestParams] = []

    async def answer(params: ElicitRequestParams) -> ElicitResult:
        asked.append(params)
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with peered() as (client, peer):
        assert client.elicitation.handle(answer) is answer
        await client.open()
        assert peer.got("initialize")[0]["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
        peer.ask(1, "elicitation/create", FORM)
        peer.ask(2, "elicitation/create", PLACE)
        assert (await peer.answer_to(1))["result"] == {"action": "accept", "content": {"name": "Ada"}}
        assert (await peer.answer_to(2))["result"] == {"action": "decline"}
        assert isinstance(asked[0], ElicitRequestFormParams)
