"""The library of the migration pages: the pages show the programs, and ours works in both eras.

`tests/interop/test_migration.py` compares it with those for FastMCP and the official SDK.
"""

import importlib.util
import re
from types import ModuleType

import pytest

from guides.loading import ROOT
from jackstay import ToolCallError, connect
from jackstay.types import ElicitRequestParams, ElicitResult

PAGES = ROOT / "docs" / "migration"
EXAMPLES = ROOT / "examples" / "migration"
SHOWN = {"fastmcp.md": ["library_fastmcp.py", "library.py"], "official-sdk.md": ["library_sdk.py"]}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("migration_library", EXAMPLES / "library.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in SHOWN.items() for name in names])
def test_a_page_shows_the_program(page: str, name: str) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    shown = re.findall(rf'^```python title="{name}"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    assert shown == [(EXAMPLES / name).read_text(encoding="utf-8")]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_the_library(version: str) -> None:
    client = connect(load().server, versions=[version])
    questions = []

    @client.elicitation.handle
    async def answer(params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"reader": "Ada"})

    async with client:
        loan = await client.tools.call("lend", {"isbn": "1111"})
        assert (loan.data.isbn, loan.data.reader, loan.data.days) == ("1111", "Ada", 14)
        assert questions == ["Who borrows Dune?"]
        found = await client.tools.call("find", {"words": "dune"})
        assert found.data[0].copies == 0, "the code after the question ran once"
        assert (await client.tools.call("desk_hours", {"day": "Sunday"})).text == "closed"
        with pytest.raises(ToolCallError, match="there is no book 9"):
            await client.tools.call("cover", {"isbn": "9"})
