"""The management surfaces of a server: what clients receive about `system.*` modules, and warnings if they are open.

A server with such modules declares the extension `com.aiperceivable/management` of apcore-mcp with its surfaces.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from jackstay.errors import Json
from jackstay.extensions import Extension

logger = logging.getLogger("apcore_mcp.server.management")

# The extension, its surfaces in their order, and the version of apcore's specification that defines them.
MANAGEMENT: Final = "com.aiperceivable/management"
SURFACES: Final = ("health", "usage", "manifest", "control")
SPECIFICATION: Final = "1.30.0"


def management_surfaces(registry: Any) -> dict[str, bool]:
    """Return which surfaces a registry has, whatever filters the server has."""
    ids = registry.list()
    return {surface: any(id.startswith(f"system.{surface}.") for id in ids) for surface in SURFACES}


def management_extensions(registry: Any) -> tuple[Extension, ...]:
    """Return the extension that declares the surfaces of a registry, or nothing without any."""
    return declare_surfaces(management_surfaces(registry))


def declare_surfaces(which: Mapping[str, bool]) -> tuple[Extension, ...]:
    """Return the extension that declares the surfaces that are true, or nothing without any."""
    surfaces: list[Json] = [surface for surface in SURFACES if which.get(surface)]
    if not surfaces:
        return ()
    return (Extension(MANAGEMENT, settings={"surfaces": surfaces, "protocolVersion": SPECIFICATION}),)


def warn_of_open_control(executor: Any) -> None:
    """Warn if every caller can change the server by `system.control.*`. Does not raise."""
    try:
        state = executor.governance_state()
    except Exception:  # noqa: BLE001  # an executor of another kind
        return
    if not state.unprotected_control_surface:
        return
    gaps = []
    if not state.acl_configured:
        gaps.append("No ACL is configured (acl= or mcp.acl)")
    elif not state.builtin_acl_gate_wired:
        gaps.append("The strategy does not include the built-in ACL gate")
    if not state.approval_handler_configured and not state.policy_strict:
        gaps.append("No approval handler is configured (approval_handler=)")
    if not state.all_control_modules_require_approval:
        gaps.append("Not every registered system.control.* module declares requires_approval=True")
    logger.warning(
        "UNPROTECTED MANAGEMENT SURFACE: every caller can reload, reconfigure and toggle modules (system.control.*)."
        " %s.",
        ". ".join(gaps),
    )


def warn_of_useless_rules(executor: Any) -> None:
    """Warn of rules of the ACL that match nothing, or have conditions that nothing evaluates."""
    acl = getattr(executor, "acl", None) or getattr(executor, "_acl", None)
    for finding in () if acl is None else acl.validate_rules():
        is_pattern = finding.condition_path in ("callers", "targets")
        logger.warning(
            "mcp.acl.rules[%s] %r protects nothing: no id matches its pattern"
            if is_pattern
            else "mcp.acl.rules[%s]: the condition %r cannot be evaluated; such a rule denies, and never allows",
            finding.rule_index,
            finding.condition_path,
        )


__all__ = [
    "MANAGEMENT",
    "SPECIFICATION",
    "SURFACES",
    "declare_surfaces",
    "management_extensions",
    "management_surfaces",
    "warn_of_open_control",
    "warn_of_useless_rules",
]
