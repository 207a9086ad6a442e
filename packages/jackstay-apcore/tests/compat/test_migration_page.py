"""docs/migration/apcore-mcp.md names only flags, keywords and names that exist."""

import re
from pathlib import Path

import apcore_mcp
from apcore_mcp.cli._flags import make_parser
from apcore_mcp.compat.keywords import KEYWORDS
from apcore_mcp.compat.openapi import BACKEND_OPTIONS
from apcore_mcp.options import APPROVAL_ALIASES, APPROVALS, ExportKeywords

PAGE = (Path(__file__).parents[4] / "docs" / "migration" / "apcore-mcp.md").read_text(encoding="utf-8")
SPANS = [span for span in re.findall(r"`([^`\n]+)`", PAGE) if not span.startswith("[Annotations")]

# Keywords of classes other than `serve()`.
OTHERS = {*ExportKeywords.__annotations__, *BACKEND_OPTIONS, "rich_description"}
OTHERS |= {"async_bridge", "approval_bridge", "extra_routes"}


def test_flags_exist() -> None:
    known = make_parser()._option_string_actions
    flags = {flag for span in SPANS for flag in re.findall(r"--[a-z][a-z-]*", span)} - {"--jwt-"}
    assert "--from-openapi" in flags
    assert [flag for flag in flags if flag not in known] == []


def test_keywords_exist() -> None:
    keywords = {name for span in SPANS for name in re.findall(r"\b([a-z_]+)=", span)}
    assert "approval_store" in keywords
    assert [name for name in keywords if name not in KEYWORDS and name not in OTHERS] == []


def test_functions_exist() -> None:
    called = {name for span in SPANS for name in re.findall(r"(?<![.\w])([A-Za-z_]+)\(", span)}
    of_methods = {"normalize", "try_denormalize", "create_explorer_mount", "create_usage_routes"}
    of_methods |= {"list", "get_definition", "call_async", "create_server", "build_streamable_http_app", "str"}
    assert "APCoreMCP" in called
    assert [name for name in called - of_methods if not hasattr(apcore_mcp, name)] == []


def test_approval_modes_are_translated() -> None:
    for mode in ("off", "auto-approve", "always-deny"):
        assert f"`{mode}`" in PAGE
        assert APPROVAL_ALIASES[mode] in APPROVALS
