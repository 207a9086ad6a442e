"""A PydanticAI agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[pydantic-ai]'
python examples/agents/pydantic_ai_agent.py
"""

import asyncio
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from jackstay.agents import pydantic_ai_toolset

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `Agent("openai:gpt-5", toolsets=...)`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    agent = Agent(model, toolsets=[pydantic_ai_toolset(target)])
    result = await agent.run("What should I wear in Bergen?")
    return str(result.output)


class ScriptedModel(FunctionModel):
    """A model that makes these calls, one for each turn, and then answers."""

    def __init__(self, turns: list[Any]) -> None:
        super().__init__(self._respond)
        self.turns = turns
        self.received: list[Any] = []
        self.tools: list[Any] = []

    async def _respond(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        self.received, self.tools = messages, info.function_tools
        turn = self.turns[sum(isinstance(message, ModelResponse) for message in messages)]
        return ModelResponse([TextPart(turn) if isinstance(turn, str) else ToolCallPart(*turn)])


if __name__ == "__main__":
    print(asyncio.run(main()))
