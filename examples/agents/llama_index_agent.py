"""A LlamaIndex agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[llama-index]'
python examples/agents/llama_index_agent.py
"""

import asyncio
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from jackstay.agents import llama_index_tools

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `llm=OpenAI(model="gpt-5")`."""
    model = scripted_model([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    async with llama_index_tools(target) as tools:
        agent = FunctionAgent(tools=tools, llm=model)
        return str(await agent.run("What should I wear in Bergen?"))


def scripted_model(turns: list[Any]) -> MockFunctionCallingLLM:
    """Return a model that makes these calls, one for each turn, and then answers."""

    def respond(messages: Any, **options: Any) -> ChatMessage:
        number = sum(message.role == "assistant" for message in messages)
        turn = turns[number]
        if isinstance(turn, str):
            return ChatMessage(turn, role="assistant")
        call = ToolCallBlock(tool_call_id=f"call_{number}", tool_name=turn[0], tool_kwargs=turn[1])
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


if __name__ == "__main__":
    print(asyncio.run(main()))
