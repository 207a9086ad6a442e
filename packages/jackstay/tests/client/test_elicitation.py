"""`client.elicitation`: form mode and URL mode."""

from jackstay.testing import on_fake_clock
from jackstay.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult
from scripted.peer import peered

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
URL_MODE = {"message": "Go", "mode": "url", "url": "https://example.com/x", "elicitationId": "1"}


@on_fake_clock
async def test_both_modes_reach_the_handler() -> None:
    received: list[ElicitRequestParams] = []

    async def respond(params: ElicitRequestParams) -> ElicitResult:
        received.append(params)
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with peered() as (client, peer):
        assert client.elicitation.handle(respond) is respond
        await client.open()
        assert peer.got("initialize")[0]["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
        peer.request(1, "elicitation/create", FORM)
        peer.request(2, "elicitation/create", URL_MODE)
        assert (await peer.response_to(1))["result"] == {"action": "accept", "content": {"name": "Ada"}}
        assert (await peer.response_to(2))["result"] == {"action": "decline"}
        assert isinstance(received[0], ElicitRequestFormParams)
