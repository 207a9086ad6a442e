"""An agent of the OpenAI Agents SDK with the tools of an MCP server. The model is scripted: no API key is needed.

pip install 'jackstay[openai-agents]'
python examples/agents/openai_agents_agent.py
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from jackstay.agents import openai_agents_server

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model, leave out `model` and `run_config`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    async with openai_agents_server(target) as server:
        agent = Agent("Traveller", mcp_servers=[server], model=model)
        result = await Runner.run(agent, "What should I wear in Bergen?", run_config=RunConfig(tracing_disabled=True))
        return str(result.final_output)


class ScriptedModel(Model):
    """A model that makes these calls, one for each turn, and then answers."""

    def __init__(self, turns: list[Any]) -> None:
        self.turns = turns
        self.received: list[Any] = []
        self.tools: list[Any] = []

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: list[Any], *args: Any, **options: Any
    ) -> ModelResponse:
        """Return the next turn."""
        self.received = [] if isinstance(input, str) else list(input)
        self.tools = tools
        number = sum(item.get("type") == "function_call" for item in self.received)
        turn = self.turns[number]
        if isinstance(turn, str):
            text = ResponseOutputText(text=turn, type="output_text", annotations=[])
            output: Any = ResponseOutputMessage(
                id="message", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                call_id=f"call_{number}", name=turn[0], arguments=json.dumps(turn[1]), type="function_call"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Not used here."""
        raise NotImplementedError


if __name__ == "__main__":
    print(asyncio.run(main()))
