"""A Strands agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[strands]'
python examples/agents/strands_agent.py
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from strands import Agent
from strands.models import Model

from jackstay.agents import strands_tools

WEATHER = Path(__file__).parents[1] / "weather.py"


def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model, leave out `model`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    agent = Agent(model=model, tools=[strands_tools(target)], callback_handler=None)
    answer = str(agent("What should I wear in Bergen?")).strip()
    agent.cleanup()
    return answer


class ScriptedModel(Model):
    """A model that makes these calls, one for each turn, and then answers."""

    def __init__(self, turns: list[Any]) -> None:
        self.turns = turns
        self.received: list[Any] = []
        self.tools: list[Any] = []

    async def stream(
        self, messages: list[Any], tool_specs: Any = None, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """Yield the next turn."""
        self.received, self.tools = list(messages), list(tool_specs or ())
        number = sum(message["role"] == "assistant" for message in messages)
        turn = self.turns[number]
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(turn, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": turn}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"call_{number}", "name": turn[0]}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(turn[1])}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(turn, str) else "tool_use"}}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        """Not used here."""
        raise NotImplementedError

    def update_config(self, **config: Any) -> None:
        """There is no configuration."""

    def get_config(self) -> dict[str, Any]:
        """There is no configuration."""
        return {}


if __name__ == "__main__":
    print(main())
