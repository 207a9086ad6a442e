"""`client.prompts`."""

from typing import Any

import pytest

from jackstay.errors import CapabilityError, UsageError
from jackstay.testing import on_fake_clock
from jackstay.types import GetPromptResult, Prompt
from scripted.peer import ERAS, opened


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_prompts_are_listed_and_filled_in(version: str) -> None:
    async with opened(version) as (client, peer):
        peer.on["prompts/list"] = {"prompts": [{"name": "greet"}]}
        (prompt,) = await client.prompts.list()
        assert isinstance(prompt, Prompt)
        message = {"role": "user", "content": {"type": "text", "text": "hello"}}
        peer.on["prompts/get"] = {"messages": [message]}
        result = await client.prompts.get("greet", {"who": "you"})
        assert isinstance(result, GetPromptResult)
        assert peer.got("prompts/get")[0]["params"]["arguments"] == {"who": "you"}
        await client.prompts.get("greet")
        assert "arguments" not in peer.got("prompts/get")[1]["params"]


@on_fake_clock
async def test_prompts_require_the_capability() -> None:
    async with opened(server_capabilities={"tools": {}}) as (client, _):
        with pytest.raises(CapabilityError):
            await client.prompts.get("greet")


@on_fake_clock
async def test_arguments_must_be_a_mapping() -> None:
    wrong: Any = ["Rome"]
    async with opened() as (client, peer):
        with pytest.raises(UsageError, match="arguments must be a mapping such as"):
            await client.prompts.get("greet", wrong)
        assert peer.got("prompts/get") == []
