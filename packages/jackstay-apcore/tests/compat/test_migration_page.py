"""docs/migration/apcore-mcp.md: every row is tested, and names only flags, keywords and names that exist."""

import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from apcore import Executor, ModuleError, Registry

import apcore_mcp
from apcore_mcp import ErrorMapper, ExecutionRouter, OpenAIConverter, SchemaConverter
from apcore_mcp.catalogue import Catalogue
from apcore_mcp.cli._checking import options_of
from apcore_mcp.cli._flags import make_parser, read
from apcore_mcp.compat.keywords import KEYWORDS, to_options
from apcore_mcp.compat.openapi import BACKEND_OPTIONS, OperationModule
from apcore_mcp.config import build_acl_from_config
from apcore_mcp.options import APPROVAL_ALIASES, APPROVALS, ExportKeywords, make_options
from apcore_mcp.serving import asgi_app

PAGE = (Path(__file__).parents[4] / "docs" / "migration" / "apcore-mcp.md").read_text(encoding="utf-8")
SPANS = [span for span in re.findall(r"`([^`\n]+)`", PAGE) if not span.startswith("[Annotations")]

# Keywords of classes other than `serve()`.
OTHERS = {*ExportKeywords.__annotations__, *BACKEND_OPTIONS, "rich_description"}
OTHERS |= {"management_surfaces", "async_bridge", "approval_bridge", "extra_routes"}


# Part of the first column of each row, and the tests of this package for the row. `here` is in this file.
PROOFS: dict[str, tuple[str, ...]] = {
    "`serve()`, `MCPServer()`, `APCoreMCP()`": ("compat/test_keywords.py::test_every_keyword_is_known",),
    "async with async_serve": (
        "compat/test_app.py::test_both_functions_return_an_app",
        "test_serving.py::test_async_serve_can_be_cancelled",
    ),
    "to_openai_tools": (
        "converters/test_openai.py::test_strict_mode",
        "converters/test_openai.py::test_embed_annotations",
    ),
    "explorer=True": ("compat/test_keywords.py::test_translations", "here::test_defaults"),
    "allow_execute=False": ("inspector/test_paths.py::test_calls_can_be_forbidden", "here::test_defaults"),
    "explorer_title": ("here::test_defaults",),
    "authenticator=": (
        "compat/test_authentication.py::test_authenticator_gets_all_headers",
        "auth/test_guard.py::test_exempt_paths_need_no_token",
    ),
    "APCORE_JWT_SECRET": (
        "auth/test_jwt.py::test_the_command_reads_the_secret",
        "auth/test_jwt.py::test_a_request_without_a_token_gets_401",
        "here::test_metrics_need_a_token",
    ),
    "apcore.yaml": (
        "test_config.py::test_settings_become_options",
        "test_config.py::test_settings_that_cannot_take_effect_are_refused",
    ),
    "redact_output=": (
        "test_bridge.py::test_options_that_the_strategy_ignores_are_refused",
        "server/test_router.py::test_sensitive_outputs_are_redacted",
        "compat/test_app.py::test_from_a_registry_or_an_executor",
    ),
    "approval_store=": (
        "compat/test_approvals.py::test_call_that_is_approved_later",
        "compat/test_approvals.py::test_approval_is_for_one_call",
        "compat/test_approvals.py::test_used_approvals_are_known_after_a_restart",
    ),
    "no approval unless": (
        "server/test_router.py::test_module_runs_only_with_approval",
        "here::test_approval_modes_are_translated",
    ),
    'output_format="csv"': (
        "test_formats.py::test_csv",
        "test_formats.py::test_function_makes_the_text",
        "server/test_router.py::test_trace_formats_and_denial",
    ),
    "observability=True": ("compat/test_app.py::test_both_functions_return_an_app", "test_usage.py::test_usage_page"),
    "async_tasks=True": (
        "compat/test_tools.py::test_without_the_keyword_there_are_no_such_tools",
        "compat/test_tools.py::test_task_without_the_approval_gate",
        "compat/test_tools.py::test_call_of_a_background_module_returns_a_task",
        "compat/test_tools.py::test_tasks_end_with_the_server",
        "compat/test_tasks.py::test_tasks_belong_to_their_caller",
        "server/test_factory.py::test_modules_that_run_in_the_background_are_tasks",
    ),
    "--from-openapi": (
        "compat/test_openapi.py::test_calls_go_to_the_api",
        "compat/test_openapi.py::test_headers_of_the_factory_go_to_one_origin",
        "compat/test_openapi.py::test_hooks_read_and_change_every_field",
        "here::test_fields_of_operations",
    ),
    "system.*": ("server/test_system.py::test_read_only_modules_are_resources",),
    "x-when-to-use": ("adapters/test_descriptions.py::test_guidance_and_intent_words_follow_the_description",),
    "`retryable`, `ai_guidance`": ("adapters/test_errors.py::test_what_the_author_wrote_is_kept",),
    "`__apcore_module_preview`": ("compat/test_tasks.py::test_preview_runs_nothing",),
    "rich_description=True": ("adapters/test_descriptions.py::test_markdown_has_annotations_schemas_and_examples",),
    "report_progress()": (
        "test_helpers.py::test_module_reports_and_elicits",
        "compat/test_calls.py::test_identity_progress_and_session",
    ),
    "ErrorMapper": ("compat/test_results.py::test_error_is_a_dict",),
    "AnnotationMapper": ("compat/test_results.py::test_hints_are_a_dict",),
    "router.handle_call": ("compat/test_results.py::test_result_of_a_call_is_a_tuple",),
    "create_explorer_mount": (
        "compat/test_explorer.py::test_page_list_and_call",
        "compat/test_explorer.py::test_usage",
        "test_serving.py::test_asgi_app_has_its_pages",
    ),
    "in a program of your own": (
        "compat/test_components.py::test_app_with_middleware_and_tasks",
        "compat/test_components.py::test_init_options",
        "compat/test_components.py::test_refusals",
        "compat/test_components.py::test_app_with_routes",
        "compat/test_components.py::test_bridges_of_tasks_and_approvals",
        "server/test_factory.py::test_tools_of_the_official_sdk_are_accepted",
    ),
    "strict schemas by default": ("here::test_schemas_are_strict_only_on_request",),
    "references in schemas": (
        "adapters/test_schema.py::test_references_are_inlined",
        "adapters/test_schema.py::test_anchors_and_absolute_references_are_inlined",
    ),
    "without annotations": ("server/test_factory.py::test_undeclared_hints_are_omitted",),
    "after redaction": ("test_redaction.py::test_schema_accepts_what_redaction_leaves",),
    "an output schema with an unknown": (
        "here::test_output_schema_that_cannot_be_resolved_is_not_listed",
        "here::test_calls_fail_only_where_apcore_follows_a_reference",
    ),
    "a registry that only looks like one": (
        "test_backends.py::test_definitions_without_modules",
        "test_backends.py::test_calls_without_an_executor_of_apcore",
        "test_backends.py::test_options_without_effect_are_refused",
    ),
    "arguments reach the ACL": ("server/test_router.py::test_defaults_are_filled_in",),
    "exit code 2": (
        "cli/test_main.py::test_bad_values_exit_with_1",
        "cli/test_main.py::test_missing_directory_exits_with_2",
    ),
    "by the revision of its header": ("here::test_revision_is_that_of_the_session",),
    "message of an exception": ("adapters/test_errors.py::test_messages",),
    "`Internal error occurred`": ("adapters/test_errors.py::test_messages",),
    "bytes and durations": ("server/test_router_json.py::test_json_values",),
    "an alias that begins with": ("server/test_factory.py::test_alias_with_a_reserved_name_is_not_used",),
    "an empty `mcp.acl`": (
        "here::test_empty_acl",
        "test_config.py::test_settings_that_cannot_take_effect_are_refused",
    ),
    "texts of some errors": ("here::test_texts_of_errors",),
    "--host 0.0.0.0": (
        "server/test_transport.py::test_unauthenticated_network_address_is_logged",
        "here::test_defaults",
    ),
}


def test_every_row_has_a_test() -> None:
    table = PAGE.partition("| apcore-mcp 0.23 | here |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines()]
    matching = {row: [part for part in PROOFS if part in row] for row in rows}
    assert {row: parts for row, parts in matching.items() if len(parts) != 1} == {}
    assert len(rows) == len(PROOFS)
    for test in {test for tests in PROOFS.values() for test in tests}:
        file, _, name = test.partition("::")
        path = Path(__file__) if file == "here" else Path(__file__).parents[1] / file
        assert f"def {name}(" in path.read_text(encoding="utf-8"), test


def test_defaults() -> None:
    options = make_options()
    assert (options.inspector_prefix, options.allow_execute, options.approval) == ("/inspector", True, "elicit")
    titles = {"explorer_title": "x", "explorer_project_name": "y", "explorer_project_url": "http://z.test"}
    assert to_options(titles) == {}
    assert make_parser().parse_args(["--host", "0.0.0.0", "--allow-host", "a.test"]).allow_host == ["a.test"]


def test_fields_of_operations() -> None:
    names = {field.name for field in fields(OperationModule)}
    assert names.isdisjoint({"suggested_alias", "warnings"})
    assert names > {"target", "metadata", "display", "documentation", "examples", "version"}


def test_schemas_are_strict_only_on_request(registry: Registry) -> None:
    definition = registry.get_definition("math.add")
    convert = OpenAIConverter().convert_descriptor
    assert ("strict" in convert(definition)["function"], "strict" in convert(definition, strict=True)["function"]) == (
        False,
        True,
    )
    assert "additionalProperties" not in SchemaConverter().convert_input_schema(definition)
    assert "additionalProperties" in SchemaConverter(strict=True).convert_input_schema(definition)


def test_output_schema_that_cannot_be_resolved_is_not_listed(registry: Registry, kinds: SimpleNamespace) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "http://x.test/schema"}}}
    registry.register("x.far", kinds.Plain(lambda *_: {"a": 1}, output_schema=schema))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    entry = catalogue.find("x.far")
    assert entry is not None
    assert not entry.output_schema


async def test_calls_fail_only_where_apcore_follows_a_reference(registry: Registry, kinds: SimpleNamespace) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}
    registry.register("x.far", kinds.Plain(lambda inputs, _: inputs, output_schema=schema))
    router = ExecutionRouter(Executor(registry))
    assert not (await router.handle_call("x.far", {})).is_error
    assert (await router.handle_call("x.far", {"a": 1})).is_error


def test_metrics_need_a_token() -> None:
    for flags, paths in (([], ()), (["--exempt-paths", "/metrics"], ("/metrics",))):
        options = options_of(read(["--jwt-secret", "s" * 40, *flags], {}))
        assert tuple(options.exempt_paths) == paths


def test_texts_of_errors(registry: Registry, kinds: SimpleNamespace) -> None:
    def text(error: Exception) -> str:
        return str(ErrorMapper().to_mcp_error(error).error_text)

    failed = ModuleError(code="MODULE_EXECUTE_ERROR", message="disk /dev/sda", ai_guidance="Buy a disk")
    assert text(failed) == "Module error: MODULE_EXECUTE_ERROR\nMessage: disk /dev/sda\nGuidance: Buy a disk"
    outside = {"properties": {"a": {"$ref": "http://x.test/schema"}}}
    registry.register("x.far", kinds.Plain(lambda *_: {}, input_schema=outside))
    for kind in (KeyError, ValueError):
        with pytest.raises(kind, match="Unsupported"):
            SchemaConverter().convert_input_schema(registry.get_definition("x.far"))


async def test_revision_is_that_of_the_session(registry: Registry) -> None:
    """Only revisions from 2025-06-18 have output schemas."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {"Accept": "application/json, text/event-stream"}
    async with asgi_app(registry) as app:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            client.headers["Mcp-Session-Id"] = (await client.post("/mcp", json=request)).headers["Mcp-Session-Id"]
            await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            client.headers["MCP-Protocol-Version"] = "2025-03-26"
            assert "outputSchema" in (await client.post("/mcp", json=request)).text


def test_empty_acl() -> None:
    assert build_acl_from_config({}) is None
    assert build_acl_from_config(None) is None


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
    of_methods = {"handle_call", "create_explorer_mount", "create_usage_routes"}
    of_methods |= {"list", "get_definition", "call_async", "create_server", "build_streamable_http_app", "str"}
    of_methods |= {"consume"}
    assert "APCoreMCP" in called
    assert [name for name in called - of_methods if not hasattr(apcore_mcp, name)] == []


def test_approval_modes_are_translated() -> None:
    for mode in ("off", "auto-approve", "always-deny"):
        assert f"`{mode}`" in PAGE
        assert APPROVAL_ALIASES[mode] in APPROVALS
