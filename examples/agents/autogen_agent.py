"""An AutoGen agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[autogen]' autogen-ext
python examples/agents/autogen_agent.py
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from jackstay.agents import autogen_workbench

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `OpenAIChatCompletionClient(model="gpt-5")`."""
    model = scripted_model([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    async with autogen_workbench(target) as workbench:
        agent = AssistantAgent("traveller", model, workbench=workbench, max_tool_iterations=5)
        result = await agent.run(task="What should I wear in Bergen?")
        return str(result.messages[-1].content)


def scripted_model(turns: list[Any]) -> ReplayChatCompletionClient:
    """Return a model that makes these calls, one for each turn, and then answers."""
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    results = [
        CreateResult(finish_reason="stop", content=turn, usage=usage, cached=False)
        if isinstance(turn, str)
        else CreateResult(
            finish_reason="function_calls",
            content=[FunctionCall(id=f"call_{number}", name=turn[0], arguments=json.dumps(turn[1]))],
            usage=usage,
            cached=False,
        )
        for number, turn in enumerate(turns)
    ]
    info = ModelInfo(vision=True, function_calling=True, json_output=False, family="any", structured_output=False)
    return ReplayChatCompletionClient(results, model_info=info)


if __name__ == "__main__":
    print(asyncio.run(main()))
