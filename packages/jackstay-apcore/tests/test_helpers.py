"""Progress and elicitation from inside a module, with a client of each era."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from apcore import Context, Registry

from apcore_mcp import elicit, report_progress
from apcore_mcp.bridge import Bridge
from apcore_mcp.options import make_options
from jackstay import connect
from jackstay.types import ElicitRequestParams, ElicitResult


class Elicits:
    input_schema: ClassVar[dict[str, Any]] = {}
    output_schema: ClassVar[dict[str, Any]] = {}
    description = "Elicits a size"

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        await report_progress(context, 1, total=2, message="half")
        form = {"type": "object", "properties": {"size": {"type": "integer"}}}
        answer = await elicit(context, "Which size?", form)
        return {"answer": answer}


async def test_outside_a_call_nothing_happens() -> None:
    for context in (SimpleNamespace(), SimpleNamespace(data={}), SimpleNamespace(data=None)):
        await report_progress(context, 1)
        assert await elicit(context, "?") is None


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_module_reports_and_elicits(registry: Registry, version: str) -> None:
    registry.register("x.size", Elicits())
    bridge = Bridge(registry, make_options())
    seen: list[Any] = []

    async def answer(params: ElicitRequestParams) -> ElicitResult:
        seen.append(params.message)
        return ElicitResult(action="accept", content={"size": 7})

    client = connect(bridge.server, versions=(version,))
    client.elicitation.handle(answer)
    async with client:
        progress: list[Any] = []
        result = await client.tools.call("x.size", {}, on_progress=progress.append)
        assert '"size": 7' in result.text
    assert seen == ["Which size?"]
    assert progress
    bridge.close()


async def test_client_without_elicitation(registry: Registry) -> None:
    registry.register("x.size", Elicits())
    bridge = Bridge(registry, make_options())
    async with connect(bridge.server) as client:
        assert '"answer": null' in (await client.tools.call("x.size", {})).text
    bridge.close()
