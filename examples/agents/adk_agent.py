"""An agent of Google's Agent Development Kit with the tools of an MCP server. The model is scripted: no API key.

pip install 'jackstay[adk]'
python examples/agents/adk_agent.py
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from jackstay.agents import adk_toolset

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `model="gemini-3-pro"`."""
    model = ScriptedModel(turns=[("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    agent = LlmAgent(name="traveller", model=model, tools=[adk_toolset(target)])
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug("What should I wear in Bergen?", quiet=True)
        return str(events[-1].content.parts[0].text)


class ScriptedModel(BaseLlm):
    """A model that makes these calls, one for each turn, and then answers."""

    model: str = "scripted"
    turns: list[Any]
    received: list[Any] = []
    tools: list[Any] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next turn."""
        self.received[:] = llm_request.contents
        self.tools[:] = [each for tool in llm_request.config.tools or () for each in tool.function_declarations]
        turn = self.turns[sum(content.role == "model" for content in llm_request.contents)]
        part = (
            types.Part(text=turn)
            if isinstance(turn, str)
            else types.Part.from_function_call(name=turn[0], args=turn[1])
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


if __name__ == "__main__":
    print(asyncio.run(main()))
