"""A Semantic Kernel agent with the tools of an MCP server. The model is scripted, so this needs no API key.

pip install 'jackstay[semantic-kernel]'
python examples/agents/semantic_kernel_agent.py
"""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import (
    ChatCompletionClientBase,
)
from semantic_kernel.contents import ChatMessageContent, FunctionCallContent

from jackstay.agents import semantic_kernel_plugin

WEATHER = Path(__file__).parents[1] / "weather.py"


async def main(target: Any = WEATHER) -> str:
    """Run the agent and return its answer. With a real model: `service=OpenAIChatCompletion("gpt-5")`."""
    model = ScriptedModel([("forecast", {"city": "Bergen", "days": 1}), "Bring a coat: 10 degrees."])
    async with semantic_kernel_plugin(target) as plugin:
        agent = ChatCompletionAgent(service=model, name="Traveller", plugins=[plugin])
        return str(await agent.get_response("What should I wear in Bergen?"))


class ScriptedModel(ChatCompletionClientBase):
    """A model that makes these calls, one for each turn, and then answers."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    turns: list[Any]
    received: list[Any] = []
    tools: list[Any] = []

    def __init__(self, turns: list[Any]) -> None:
        super().__init__(ai_model_id="scripted", turns=turns)

    def _update_function_choice_settings_callback(self) -> Any:
        def keep_tools(configuration: Any, settings: Any, choice: Any) -> None:
            self.tools[:] = configuration.available_functions or []

        return keep_tools

    async def _inner_get_chat_message_contents(self, chat_history: Any, settings: Any) -> list[ChatMessageContent]:
        self.received[:] = chat_history.messages
        number = sum(message.role == "assistant" for message in chat_history.messages)
        turn = self.turns[number]
        if isinstance(turn, str):
            return [ChatMessageContent(role="assistant", content=turn)]
        plugin = self.tools[0].plugin_name
        call = FunctionCallContent(id=f"call_{number}", plugin_name=plugin, function_name=turn[0], arguments=turn[1])
        return [ChatMessageContent(role="assistant", items=[call])]


if __name__ == "__main__":
    print(asyncio.run(main()))
