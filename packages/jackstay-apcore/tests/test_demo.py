"""`examples/apcore_demo`, served as in its README and used over MCP."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apcore import Registry

from apcore_mcp.catalogue import Catalogue
from jackstay.client import Client, connect
from jackstay.transport.http import http
from jackstay.types import ElicitResult
from scripted.places import ROOT

DEMO = ROOT / "examples" / "apcore_demo"
EXTENSIONS = DEMO / "extensions"


@pytest.fixture
def url(tmp_path: Path, port: int, listening: Callable[[int], bool]) -> Iterator[str]:
    """Run the command of the README on another port, and return the URL."""
    text = (DEMO / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^apcore-mcp (.*)$", text, re.MULTILINE)
    assert command is not None
    arguments = [*command[1].split(), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "apcore_mcp", *arguments],
        cwd=DEMO.parent.parent,
        env={**os.environ, "APCORE_DEMO_NOTES": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert listening(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def test_all_modules_are_discovered() -> None:
    registry = Registry(extensions_dir=str(EXTENSIONS))
    registry.discover()
    catalogue = Catalogue(registry)
    catalogue.refresh()
    rows = re.findall(r"^\| `([a-z.]+)`", (DEMO / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == [entry.id for entry in catalogue.tools()]
    assert len(rows) >= 6
    assert dict(catalogue.skipped()) == {}
    by_id = {entry.id: entry for entry in catalogue.tools()}
    assert [id for id, entry in by_id.items() if entry.is_streaming] == ["report.build"]
    assert [id for id, entry in by_id.items() if entry.needs_approval] == ["notes.delete"]
    assert by_id["payments.charge"].sensitive == (("card",),)


async def text_of(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    result = await client.tools.call(tool, arguments, raise_on_error=False)
    return bool(result.is_error), result.content[0].text  # type: ignore[union-attr]  # the bridge returns text


def test_modules_behave_as_documented(url: str, tmp_path: Path) -> None:
    elicited: list[str] = []

    async def accept(request: Any) -> ElicitResult:
        elicited.append(request.message)
        return ElicitResult(action="accept", content={})

    async def use() -> None:
        client = connect(http(f"{url}/mcp"))
        client.elicitation.handle(accept)
        async with client:
            counted = await client.tools.call("text.count", {"text": "a b A"}, raise_on_error=False)
            assert counted.structured_content == {
                "characters": 5,
                "words": 3,
                "different_words": 2,
                "lines": 1,
            }
            weather = await client.tools.call(
                "weather.forecast", {"place": "Kiel", "days": 2, "unit": "fahrenheit"}, raise_on_error=False
            )
            assert len(weather.structured_content["days"]) == 2
            order = {"items": [{"article": "Rope", "price": 10, "quantity": 2}], "coupon": "TENOFF"}
            assert (await client.tools.call("orders.quote", order, raise_on_error=False)).structured_content[
                "total"
            ] == 22.9
            seen: list[float] = []
            report = await client.tools.call(
                "report.build",
                {"sections": 2, "seconds_each": 0},
                on_progress=lambda progress: seen.append(progress.progress),
                raise_on_error=False,
            )
            assert report.structured_content["done"] == 2
            # The client may drop all but the newest progress update, which can arrive after the result.
            while not seen or seen[-1] != 3:
                await asyncio.sleep(0)
            assert seen == sorted(seen)
            note = {"name": "old", "text": "x"}
            assert await text_of(client, "notes.add", note) == (False, '{"name": "old", "notes": ["old"]}')
            is_error, text = await text_of(client, "notes.add", note)
            assert (is_error, text) == (True, "Invalid input: there is a note 'old'; overwrite replaces it")
            assert await text_of(client, "notes.delete", {"name": "old"}) == (
                False,
                '{"deleted": true, "notes": []}',
            )
            assert elicited
            assert elicited[0].startswith("Run notes.delete?")
            charge = {"amount": 3, "card": "4111111111111111"}
            assert await text_of(client, "payments.charge", charge) == (True, "Internal error occurred")

    asyncio.run(use())
    assert list(tmp_path.iterdir()) == []
