"""Settings in apcore.yaml and in the environment take effect or are refused; none is ignored."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apcore import Executor, Registry

from apcore_mcp.bridge import Bridge
from apcore_mcp.config import openapi_settings, register_mcp_namespace, with_settings
from apcore_mcp.options import make_options

Settings = Callable[[str], None]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Write the section `mcp` of apcore.yaml in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(section: str) -> None:
        (tmp_path / "apcore.yaml").write_text(f"apcore:\n  version: '1.0'\nmcp:\n{section}\n")

    return write


def call(registry: Registry | Executor, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    bridge = Bridge(registry, make_options(**with_settings(options)))
    try:
        return asyncio.run(bridge.router.handle_call(name, arguments))
    finally:
        bridge.close()


@pytest.mark.parametrize("name", ["project.yaml", "project.yml", "apcore.yaml", "apcore.yml"])
def test_name_of_a_file_that_is_none_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container runtime makes a directory of a file that is to be mounted and does not exist."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for make in ((tmp_path / name).mkdir, lambda: (tmp_path / name).symlink_to("nowhere")):
        make()
        message = f"{name} is not a file: remove it, or replace it by apcore's configuration"
        with pytest.raises(ValueError, match=f"^{message}$"):
            with_settings({})
        (tmp_path / "other.yaml").write_text("mcp: {name: other}")
        monkeypatch.setenv("APCORE_CONFIG_FILE", "other.yaml")
        assert with_settings({}) == {"name": "other"}
        monkeypatch.delenv("APCORE_CONFIG_FILE")
        if not (tmp_path / name).is_symlink():
            (tmp_path / name).rmdir()


def test_without_a_file_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert with_settings({"port": 9}) == {"port": 9}


def test_variables_with_two_words(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """apcore nests them; without a file and before the file they take effect, or are refused."""
    monkeypatch.setenv("APCORE_MCP_REQUIRE_AUTH", "true")
    monkeypatch.setenv("APCORE_MCP_VALIDATE_INPUTS", "true")
    monkeypatch.setenv("APCORE_MCP_EXPLORER_PREFIX", "/tools")
    for has_file in (False, True):
        with subtests.test(has_file=has_file):
            if has_file:
                settings("  require_auth: false")
            with pytest.raises(ValueError, match=r"mcp\.require_auth is true, but there is no authentication"):
                with_settings({"transport": "streamable-http"})
            found = with_settings({})
            assert (found["validate_inputs"], found["inspector_prefix"]) == (True, "/tools")


def test_settings_become_options(settings: Settings) -> None:
    settings(
        "  transport: streamable-http\n  host: 0.0.0.0\n  port: 9001\n  name: shop\n  log_level: debug\n"
        "  validate_inputs: true\n  explorer: true\n  explorer_prefix: /pages"
    )
    options = make_options(**with_settings({}))
    assert (options.transport, options.host, options.port, options.name) == ("streamable-http", "0.0.0.0", 9001, "shop")
    assert (options.log_level, options.validate_inputs, options.explorer) == ("DEBUG", True, True)
    assert options.inspector_prefix == "/pages"


def test_keywords_and_variables_take_precedence(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings("  port: 9001\n  name: shop\n  host: example.org")
    monkeypatch.setenv("APCORE_MCP_HOST", "127.0.0.2")
    monkeypatch.setenv("APCORE_MCP_NAME", "42")
    monkeypatch.setenv("APCORE_MCP_EXTENSIONS_DIR", "/modules")  # for the command
    options = make_options(**with_settings({"port": 9002}))
    assert (options.port, options.name, options.host) == (9002, "42", "127.0.0.2")


BAD = [
    ("  port: eighty", "mcp.port: port must be an int from 1 to 65535, not 'eighty'"),
    ("  transport: pigeon", "mcp.transport: Unknown transport: 'pigeon'; transport must be one of"),
    ("  explorers: true", "mcp.explorers is not a setting; the settings are transport,"),
    ("  - 1", "the section mcp of apcore's configuration must be a mapping, not list"),
    ("  pipeline: fast", "mcp.pipeline must be a mapping, not str"),
    ("  require_auth: 2", "mcp.require_auth must be true or false, not 2"),
    ("  require_auth: ''", "mcp.require_auth must be true or false, not ''"),
    ("  require_auth:", "mcp.require_auth is empty and protects nothing: remove it, or set it"),
    ("  explorer: maybe", "mcp.explorer must be true or false, not 'maybe'"),
    ("  validate_inputs: []", "mcp.validate_inputs must be true or false, not []"),
    ("  acl:", "mcp.acl is empty and protects nothing: remove it, or set it"),
    ("  middleware:", "mcp.middleware is empty and protects nothing: remove it, or set it"),
    ("  pipeline:", "mcp.pipeline is empty and protects nothing: remove it, or set it"),
    ("  pipeline: {removes: [acl_check]}", "mcp.pipeline has unexpected keys 'removes'; its keys are remove,"),
    ("  transport: sse\n  require_auth: true", "mcp.require_auth is true, but there is no authentication"),
    ("  require_auth: true\n  transport: sse", "mcp.require_auth is true, but there is no authentication"),
    ("  acl: {}", "mcp.acl is empty, which protects nothing: remove it, or set mcp.acl.default_effect"),
    ("  acl: deny", "mcp.acl must be a mapping, not str"),
    ("  acl: {defaults: deny}", "mcp.acl has unexpected keys 'defaults'; its keys are default_effect, rules"),
    ("  acl: {default_effect: maybe}", "mcp.acl.default_effect must be 'allow' or 'deny', not 'maybe'"),
    ("  acl: {rules: all}", "mcp.acl.rules must be a list, not str"),
    ("  acl: {rules: [allow]}", "mcp.acl.rules[0] must be a mapping, not str"),
    ("  acl: {rules: [{effect: allow, callers: ['*']}]}", "mcp.acl.rules[0]: 'targets' must be a non-empty list"),
    ("  acl: {rules: [{effect: no}]}", "mcp.acl.rules[0]: 'effect' must be 'allow' or 'deny'"),
    (
        "  acl: {rules: [{effect: deny, callers: ['*'], targets: ['*'], approval: maybe}]}",
        "mcp.acl.rules[0]: 'approval' must be 'required' or 'not_required', not 'maybe'",
    ),
    ("  acl: {rules: [{effect: deny, callers: ['*'], targets: ['$not']}]}", "mcp.acl.rules[0]: "),
    ("  middleware: retry", "mcp.middleware must be a list, not str"),
    ("  middleware: [retry]", "mcp.middleware[0] must be an object with a 'type', not str"),
    ("  middleware: [{type: magic}]", "mcp.middleware[0]: unknown type 'magic'; use one of retry, logging"),
    ("  middleware: [{max_retries: 3}]", "mcp.middleware[0]: missing required 'type' key; use one of retry, logging"),
    ("  middleware: [{type: retry, max_retries: many}]", "mcp.middleware[0].max_retries: Expected `int`, got `str`"),
    ("  middleware: [{type: retry, strategy: never}]", "mcp.middleware[0].strategy: Invalid enum value 'never'"),
    ("  middleware: [{type: logging, log_inputs: 'no'}]", "mcp.middleware[0].log_inputs: Expected `bool`, got `str`"),
    ("  middleware: [{type: error_history, store: disk}]", "mcp.middleware[0].store: Expected `ObservabilityStore`"),
    (
        "  middleware: [{type: retry, tries: 3}]",
        "mcp.middleware[0] has unexpected keys 'tries'; its keys are max_retries",
    ),
]


def test_switches_have_the_spellings_of_variables(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings("  explorer: 'off'\n  validate_inputs: 'yes'\n  require_auth: 0")
    found = with_settings({})
    assert (found["explorer"], found["validate_inputs"], found["require_auth"]) == (False, True, False)
    monkeypatch.setenv("APCORE_MCP_EXPLORER", "1")
    assert with_settings({})["explorer"] is True


def test_unknown_setting_is_refused_beside_a_variable_of_the_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APCORE_MCP_JWT_SECRET", "s" * 40)
    assert with_settings({}) == {}
    settings("  jwt: {audience: me}")
    with pytest.raises(ValueError, match=r"^mcp\.jwt is not a setting"):
        with_settings({})


def test_variables_of_flags_for_documents_are_no_document(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """They belong to --from-openapi, or complete the document of the file."""
    monkeypatch.setenv("APCORE_MCP_OPENAPI_EXCLUDE", "del")
    monkeypatch.setenv("APCORE_MCP_OPENAPI_BASE_URL", "http://x.test")
    assert (with_settings({}), openapi_settings()) == ({}, None)
    monkeypatch.delenv("APCORE_MCP_OPENAPI_BASE_URL")
    settings("  openapi: {spec: api.json, prefix: web}")
    assert openapi_settings() == {"spec": "api.json", "prefix": "web", "exclude": "del"}
    settings("  openapi: {prefix: web}")
    assert "extensions" in with_settings({})  # refused when it is built, for want of a spec


def test_settings_that_cannot_take_effect_are_refused(settings: Settings, subtests: pytest.Subtests) -> None:
    for section, message in BAD:
        with subtests.test(section=section):
            settings(section)
            with pytest.raises(ValueError) as caught:
                with_settings({})
            assert str(caught.value).startswith(message)


def test_require_auth_of_the_file_is_a_default(settings: Settings) -> None:
    settings("  require_auth: false")
    assert with_settings({"auth": object()})["require_auth"] is False
    assert with_settings({"auth": object(), "require_auth": True})["require_auth"] is True


def test_acl_of_the_file_is_enforced(settings: Settings, registry: Registry) -> None:
    settings("  acl:\n    default_effect: deny\n    rules: []")
    result = call(registry, "math.add", {"a": 1})
    assert (result.is_error, result.content[0].text) == (True, "Access denied")
    result = call(Executor(registry), "math.add", {"a": 1})
    assert (result.is_error, result.content[0].text) == (True, "Access denied")


def test_acl_rules_allow(settings: Settings, registry: Registry) -> None:
    settings("  acl:\n    rules:\n      - {callers: ['@external'], targets: ['math.*'], effect: allow, description: x}")
    assert not call(registry, "math.add", {"a": 1}).is_error


def test_acl_keyword_replaces_the_one_in_the_file(settings: Settings, registry: Registry) -> None:
    from apcore import ACL

    settings("  acl: {default_effect: deny}")
    assert not call(registry, "math.add", {"a": 1}, acl=ACL(rules=[], default_effect="allow")).is_error


def test_middleware_of_the_file_is_used(settings: Settings, registry: Registry) -> None:
    settings(
        "  middleware:\n    - {type: retry, max_retries: 1}\n    - {type: logging}\n"
        "    - {type: error_history, max_total_entries: 5}"
    )
    executor = Executor(registry)
    before = len(executor.middlewares)
    bridge = Bridge(executor, make_options(**with_settings({})))
    bridge.close()
    names = [type(middleware).__name__ for middleware in executor.middlewares[before:]]
    assert sorted(names) == ["ErrorHistoryMiddleware", "ObsLoggingMiddleware", "RetryMiddleware"]


def test_pipeline_of_the_file_is_used(settings: Settings, registry: Registry) -> None:
    settings("  pipeline:\n    remove: [output_validation]")
    bridge = Bridge(registry, make_options(**with_settings({"strategy": "standard"})))
    bridge.close()
    assert "output_validation" not in [step.name for step in bridge.executor.current_strategy.steps]
    with pytest.raises(ValueError, match="cannot replace the strategy of an Executor"):
        Bridge(Executor(registry), make_options(**with_settings({})))


def test_namespace_is_registered_once() -> None:
    register_mcp_namespace()
    register_mcp_namespace()
