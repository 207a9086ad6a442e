"""A model with the tools of a server: OpenAI's two APIs and Anthropic's, the same loop three times.

    pip install anthropic
    ANTHROPIC_API_KEY=... python examples/guides/assistant.py 'Was A7 paid? If not, pay 500 cents for it.'

What each part is for: docs/guides/models.md.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jackstay import connect, stdio
from jackstay.models import Toolbox

SHOP = Path(__file__).parent / "shop.py"

# Models are retired within a year or two: take ones that your account has.
ANTHROPIC_MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-5.5"

# A model may call tools for ever; somebody pays for it.
MOST_TURNS = 20
GAVE_UP = f"the model still calls tools after {MOST_TURNS} turns"

# `create` of a model's library: what sends one request and returns the model's answer.
Create = Callable[..., Awaitable[Any]]


async def ask_anthropic(create: Create, toolbox: Toolbox, question: str) -> str:
    """Anthropic's Messages API; `Toolbox(client, "anthropic")`."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        answer = await create(
            model=ANTHROPIC_MODEL, max_tokens=4096, messages=messages, tools=await toolbox.definitions()
        )
        told = await toolbox.answer(answer, timeout=20)
        if not told:
            return "".join(block.text for block in answer.content if block.type == "text")
        messages += [{"role": "assistant", "content": answer.content}, *told]
    raise TimeoutError(GAVE_UP)


async def ask_openai(create: Create, toolbox: Toolbox, question: str) -> str:
    """OpenAI's chat completions; `Toolbox(client, "openai")`."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        answer = await create(model=OPENAI_MODEL, messages=messages, tools=await toolbox.definitions())
        told = await toolbox.answer(answer, timeout=20)
        if not told:
            return answer.choices[0].message.content or ""
        messages += [answer.choices[0].message, *told]
    raise TimeoutError(GAVE_UP)


async def ask_openai_responses(create: Create, toolbox: Toolbox, question: str) -> str:
    """OpenAI's Responses API; `Toolbox(client, "openai-responses")`."""
    items: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        answer = await create(model=OPENAI_MODEL, input=items, tools=await toolbox.definitions())
        told = await toolbox.answer(answer, timeout=20)
        if not told:
            return str(answer.output_text)
        items += [*answer.output, *told]
    raise TimeoutError(GAVE_UP)


async def main(question: str) -> None:
    from anthropic import AsyncAnthropic  # type: ignore[import-not-found]  # noqa: PLC0415  # `pip install anthropic`

    target = stdio(sys.executable, SHOP, "ledger.txt", inherit_env=["PYTHONPATH"])
    async with connect(target) as client:
        create = AsyncAnthropic().messages.create
        print(await ask_anthropic(create, Toolbox(client, "anthropic"), question))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python assistant.py QUESTION")
    asyncio.run(main(sys.argv[1]))
