"""Uses every feature of the library over stdio and prints what it got: `python library_client.py COMMAND...`."""

import asyncio
import sys

from jackstay import connect, stdio
from jackstay.types import ElicitRequestParams, ElicitResult, ProgressNotificationParams


async def main() -> None:
    # Not in 2026-07-28, where FastMCP has no elicitation.
    client = connect(stdio(*sys.argv[1:]), versions=["2025-11-25"])

    @client.elicitation.handle
    async def answer(params: ElicitRequestParams) -> ElicitResult:
        print("elicitation:", params.message)
        return ElicitResult(action="accept", content={"reader": "Ada"})

    async with client:
        reports: list[ProgressNotificationParams] = []
        print(client.instructions)
        for tool in sorted(await client.tools.list(), key=lambda tool: tool.name):
            hints = tool.annotations
            flags = (hints.read_only_hint, hints.idempotent_hint) if hints else (None, None)
            print(
                tool.name,
                tool.description,
                sorted(tool.input_schema.get("properties", {})),
                tool.input_schema.get("required"),
                flags,
            )
        print(sorted(str(resource.uri) for resource in await client.resources.list()))
        print([template.uri_template for template in await client.resources.templates()])
        print(
            [
                (prompt.name, [argument.name for argument in prompt.arguments or []])
                for prompt in await client.prompts.list()
            ]
        )
        book = {"isbn": "3333", "title": "Emma", "copies": 2}
        for name, arguments in (
            ("find", {"words": "dune"}),
            ("find", {"words": "dune", "limit": 51}),
            ("add", {"book": book}),
            ("add", {"book": {**book, "isbn": "x"}}),
            ("lend", {"isbn": "3333"}),
            ("lend", {"isbn": "9999"}),
            ("cover", {"isbn": "1111"}),
            ("desk_hours", {"day": "Sunday"}),
            ("count_calls", {}),
        ):
            result = await client.tools.call(name, arguments, raise_on_error=False, on_progress=reports.append)
            text = "" if result.is_error else result.text
            if reason := result.error_text.removeprefix(f"Error executing tool {name}: "):  # which the SDK writes first
                # Each library has its own words for invalid arguments.
                text = reason if reason.startswith("there is no book") else "invalid arguments"
            kinds = [block.type for block in result.content]
            print(name, bool(result.is_error), kinds, result.structured_content or text)
        for uri in ("library://books", "library://books/3333"):
            print((await client.resources.read(uri)).contents[0].text)
        print((await client.prompts.get("recommend", {"genre": "novel"})).messages[0].content)
        print([(float(report.progress), float(report.total or 0)) for report in reports])


asyncio.run(main())
