"""The management surfaces: the extension of the handshake, and warnings."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import ACL, ACLRule, Registry

from apcore_mcp.bridge import Bridge
from apcore_mcp.options import make_options
from apcore_mcp.server.management import MANAGEMENT, management_surfaces, warn_of_open_control, warn_of_useless_rules
from jackstay.client import connect


async def test_without_surfaces(registry: Registry) -> None:
    assert not any(management_surfaces(registry).values())
    async with connect(Bridge(registry, make_options()).server) as client:
        assert MANAGEMENT not in (client.server_capabilities.extensions or {})


def state(**more: Any) -> Any:
    names = ("acl_configured", "builtin_acl_gate_wired", "approval_handler_configured", "policy_strict")
    defaults = dict.fromkeys((*names, "all_control_modules_require_approval"), False)
    found = SimpleNamespace(**{**defaults, "unprotected_control_surface": True, **more})
    return SimpleNamespace(governance_state=lambda: found)


def test_open_control_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for silent in (object(), state(unprotected_control_surface=False)):
        warn_of_open_control(silent)
    assert not caplog.records
    warn_of_open_control(state())
    assert "No ACL is configured" in caplog.text
    assert "No approval handler" in caplog.text
    caplog.clear()
    protected = state(acl_configured=True, policy_strict=True, all_control_modules_require_approval=True)
    warn_of_open_control(protected)
    assert "does not include the built-in ACL gate." in caplog.text


def test_rules_that_match_nothing_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    warn_of_useless_rules(SimpleNamespace(acl=None))
    acl = ACL(rules=[ACLRule(callers=["*"], targets=["$not", "*"], effect="deny")], default_effect="allow")
    warn_of_useless_rules(SimpleNamespace(acl=acl))
    assert [record.message for record in caplog.records] == [
        "mcp.acl.rules[0] 'targets' protects nothing: no id matches its pattern"
    ]
    rule = ACLRule(callers=["*"], targets=["*"], effect="deny", conditions={"no_such_condition": 1})
    acl = ACL(rules=[rule], default_effect="allow")
    caplog.clear()
    warn_of_useless_rules(SimpleNamespace(acl=acl))
    assert [record.message for record in caplog.records] == [
        "mcp.acl.rules[0]: the condition 'no_such_condition' cannot be evaluated; such a rule denies, and never allows"
    ]
