"""A CrewAI agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[crewai]'
python examples/agents/crewai_agent.py
"""

import json
from pathlib import Path
from typing import Any

from crewai import Agent, BaseLLM

from jackstay.agents import crewai_tools

WEATHER = Path(__file__).parents[1] / "weather.py"


def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `llm="openai/gpt-5"`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    with crewai_tools(target) as tools:
        agent = Agent(role="traveller", goal="Travel well.", backstory="You travel a lot.", tools=tools, llm=model)
        return str(agent.kickoff("What should I wear in Bergen?"))


class ScriptedModel(BaseLLM):
    """A model that makes these calls, one for each turn, and then answers."""

    turns: list[Any]
    received: list[Any] = []
    number: int = 0

    def __init__(self, turns: list[Any]) -> None:
        super().__init__(model="scripted", turns=turns)

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        """Return the next turn in the text format for models without tool calls."""
        self.received[:] = messages
        turn = self.turns[self.number]
        self.number += 1
        if isinstance(turn, str):
            return f"Thought: I know the answer.\nFinal Answer: {turn}"
        return f"Thought: I need a tool.\nAction: {turn[0]}\nAction Input: {json.dumps(turn[1])}"

    async def acall(self, messages: Any, *args: Any, **options: Any) -> str:
        """As `call()`."""
        return self.call(messages)

    def supports_function_calling(self) -> bool:
        """Use the text format."""
        return False


if __name__ == "__main__":
    print(main())
