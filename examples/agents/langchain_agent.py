"""A LangChain agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[langchain]' langchain
python examples/agents/langchain_agent.py
"""

import asyncio
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from jackstay.agents import langchain_tools

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `create_agent("openai:gpt-5", tools)`."""
    model = ScriptedModel(turns=[("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    async with langchain_tools(target) as tools:
        agent = create_agent(model, tools)
        result = await agent.ainvoke({"messages": [("user", "What should I wear in Bergen?")]})
        return str(result["messages"][-1].content)


class ScriptedModel(BaseChatModel):
    """A model that makes these calls, one for each turn, and then answers."""

    turns: list[Any]
    received: list[Any] = []
    tools: list[Any] = []

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Keep the tools, which a real model would send to its API."""
        self.tools[:] = tools
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.received[:] = messages
        turn = self.turns[sum(isinstance(message, AIMessage) for message in messages)]
        message = AIMessage(turn) if isinstance(turn, str) else AIMessage("", tool_calls=[_call(turn, len(messages))])
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


def _call(turn: tuple[str, dict[str, Any]], number: int) -> dict[str, Any]:
    name, arguments = turn
    return {"name": name, "args": arguments, "id": f"call_{number}"}


if __name__ == "__main__":
    print(asyncio.run(main()))
