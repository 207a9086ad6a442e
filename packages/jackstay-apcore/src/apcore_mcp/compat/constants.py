"""Constants of apcore-mcp: events, error codes, and the pattern of module ids."""

import re
from typing import Final

from apcore_mcp.adapters.id_normalizer import APCORE_META_TOOL_PREFIX

# The events of a registry.
REGISTRY_EVENTS: Final[dict[str, str]] = {"REGISTER": "register", "UNREGISTER": "unregister"}

# The events of apcore.
APCORE_EVENTS: Final[dict[str, str]] = {
    "MODULE_TOGGLED": "apcore.module.toggled",
    "MODULE_RELOADED": "apcore.module.reloaded",
    "CONFIG_UPDATED": "apcore.config.updated",
    "HEALTH_RECOVERED": "apcore.health.recovered",
}

# The codes of apcore's errors, by name.
ERROR_CODES: Final[dict[str, str]] = {
    code: code
    for code in (
        "MODULE_NOT_FOUND",
        "MODULE_DISABLED",
        "SCHEMA_VALIDATION_ERROR",
        "ACL_DENIED",
        "CALL_DEPTH_EXCEEDED",
        "CIRCULAR_CALL",
        "CALL_FREQUENCY_EXCEEDED",
        "INTERNAL_ERROR",
        "GENERAL_INTERNAL_ERROR",
        "MODULE_TIMEOUT",
        "MODULE_LOAD_ERROR",
        "MODULE_EXECUTE_ERROR",
        "GENERAL_INVALID_INPUT",
        "APPROVAL_DENIED",
        "APPROVAL_TIMEOUT",
        "APPROVAL_PENDING",
        "VERSION_INCOMPATIBLE",
        "ERROR_CODE_COLLISION",
        "EXECUTION_CANCELLED",
        "CONFIG_NAMESPACE_DUPLICATE",
        "CONFIG_NAMESPACE_RESERVED",
        "CONFIG_ENV_PREFIX_CONFLICT",
        "CONFIG_MOUNT_ERROR",
        "CONFIG_BIND_ERROR",
        "ERROR_FORMATTER_DUPLICATE",
        "CONFIG_ENV_MAP_CONFLICT",
        "PIPELINE_ABORT",
        "STEP_NOT_FOUND",
        "DEPENDENCY_NOT_FOUND",
        "DEPENDENCY_VERSION_MISMATCH",
        "TASK_LIMIT_EXCEEDED",
        "VERSION_CONSTRAINT_INVALID",
        "CIRCUIT_BREAKER_OPEN",
        "BINDING_SCHEMA_INFERENCE_FAILED",
        "BINDING_SCHEMA_MODE_CONFLICT",
        "BINDING_STRICT_SCHEMA_INCOMPATIBLE",
        "BINDING_POLICY_VIOLATION",
    )
}

# The ids that apcore accepts.
MODULE_ID_PATTERN: Final = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")

__all__ = ["APCORE_EVENTS", "APCORE_META_TOOL_PREFIX", "ERROR_CODES", "MODULE_ID_PATTERN", "REGISTRY_EVENTS"]
