"""A smolagents agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[smolagents]'
python examples/agents/smolagents_agent.py
"""

from pathlib import Path
from typing import Any

from smolagents import Model, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)

from jackstay.agents import smolagents_tools

WEATHER = Path(__file__).parents[1] / "weather.py"


def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `InferenceClientModel()`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    with smolagents_tools(target) as tools:
        agent = ToolCallingAgent(tools=tools, model=model, verbosity_level=0)
        return str(agent.run("What should I wear in Bergen?"))


class ScriptedModel(Model):
    """A model that makes these calls, one for each turn, and then answers."""

    def __init__(self, turns: list[Any]) -> None:
        super().__init__()
        self.turns = turns
        self.number = 0
        self.received: list[Any] = []
        self.tools: list[Any] = []

    def generate(self, messages: list[Any], *args: Any, tools_to_call_from: Any = (), **options: Any) -> ChatMessage:
        """Return the next turn."""
        self.received, self.tools = messages, list(tools_to_call_from)
        turn = self.turns[self.number]
        self.number += 1
        name, arguments = ("final_answer", {"answer": turn}) if isinstance(turn, str) else turn
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(function=function, id=f"call_{self.number}", type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, tool_calls=[call])


if __name__ == "__main__":
    print(main())
