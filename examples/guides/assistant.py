"""A model that uses the tools of a server, with the APIs of Anthropic and OpenAI (docs/guides/models.md).

pip install anthropic
ANTHROPIC_API_KEY=... python examples/guides/assistant.py 'Was A7 paid? If not, pay 500 cents for it.'
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jackstay import connect, stdio
from jackstay.models import Toolbox

SHOP = Path(__file__).parent / "shop.py"

# Models are retired within a year or two: use those that your account has.
ANTHROPIC_MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-5.5"

# A limit, because a model may call tools endlessly, and each turn costs money.
MAX_TURNS = 20
TOO_MANY_TURNS = f"the model still calls tools after {MAX_TURNS} turns"

# The `create` method of a model's library: sends one request and returns the response.
Create = Callable[..., Awaitable[Any]]


async def run_anthropic(create: Create, toolbox: Toolbox, question: str) -> str:
    """Anthropic's Messages API; `Toolbox(client, "anthropic")`."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        answer = await create(
            model=ANTHROPIC_MODEL, max_tokens=4096, messages=messages, tools=await toolbox.definitions()
        )
        results = await toolbox.answer(answer, timeout=20)
        if not results:
            return "".join(block.text for block in answer.content if block.type == "text")
        messages += [{"role": "assistant", "content": answer.content}, *results]
    raise TimeoutError(TOO_MANY_TURNS)


async def run_openai(create: Create, toolbox: Toolbox, question: str) -> str:
    """OpenAI's chat completions; `Toolbox(client, "openai")`."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        answer = await create(model=OPENAI_MODEL, messages=messages, tools=await toolbox.definitions())
        results = await toolbox.answer(answer, timeout=20)
        if not results:
            return answer.choices[0].message.content or ""
        messages += [answer.choices[0].message, *results]
    raise TimeoutError(TOO_MANY_TURNS)


async def run_openai_responses(create: Create, toolbox: Toolbox, question: str) -> str:
    """OpenAI's Responses API; `Toolbox(client, "openai-responses")`."""
    items: list[Any] = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        answer = await create(model=OPENAI_MODEL, input=items, tools=await toolbox.definitions())
        results = await toolbox.answer(answer, timeout=20)
        if not results:
            return str(answer.output_text)
        items += [*answer.output, *results]
    raise TimeoutError(TOO_MANY_TURNS)


async def main(question: str) -> None:
    from anthropic import AsyncAnthropic  # noqa: PLC0415  # `pip install anthropic`

    target = stdio(sys.executable, SHOP, "ledger.txt", inherit_env=["PYTHONPATH"])
    async with connect(target) as client:
        create = AsyncAnthropic().messages.create
        print(await run_anthropic(create, Toolbox(client, "anthropic"), question))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python assistant.py QUESTION")
    asyncio.run(main(sys.argv[1]))
