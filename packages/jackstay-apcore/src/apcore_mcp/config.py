"""The section `mcp` of apcore's configuration file and its variables `APCORE_MCP_*`.

apcore finds the file: `$APCORE_CONFIG_FILE`, `project.yaml`, `apcore.yaml`, then the user's own. Every key of the
section takes effect or is refused; none is ignored, because some of them protect modules.
"""

import inspect
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import apcore  # type: ignore[import-untyped]  # apcore ships no types
import msgspec
from apcore import ACL, ACLRule, Config
from apcore.errors import ModuleError  # type: ignore[import-untyped]

from apcore_mcp.options import make_options

logger = logging.getLogger("apcore_mcp.config")

# The section.
MCP_NAMESPACE: Final = "mcp"
# The prefix of the variables.
MCP_ENV_PREFIX: Final = "APCORE_MCP"
# The values without a setting.
MCP_DEFAULTS: Final[dict[str, object]] = {
    "transport": "stdio",
    "host": "127.0.0.1",
    "port": 8000,
    "name": "apcore-mcp",
    "log_level": None,
    "validate_inputs": False,
    "explorer": False,
    "explorer_prefix": "/explorer",
    "require_auth": True,
    "middleware": [],
    "acl": None,
    "openapi": None,
}

# Where apcore looks in the working directory.
_FILES: Final = ("project.yaml", "project.yml", "apcore.yaml", "apcore.yml")
_TRUE: Final = ("true", "1", "yes", "on")
_FALSE: Final = ("false", "0", "no", "off")
# Keys that must have a value, because somebody may rely on them.
_PROTECTING: Final = ("acl", "middleware", "pipeline", "require_auth")
_PIPELINE_KEYS: Final = ("remove", "configure", "steps")
_EFFECTS: Final = ("allow", "deny")
_APPROVALS: Final = ("required", "not_required")
_RULE_KEYS: Final = ("callers", "targets", "effect", "description", "conditions", "approval")

# Keys that are options of `serve()`, and the option.
_OPTIONS: Final = {
    **{key: key for key in ("transport", "host", "port", "name", "log_level", "validate_inputs", "explorer")},
    "explorer_prefix": "inspector_prefix",
}


def register_mcp_namespace() -> None:
    """Make apcore accept the section `mcp`. Further calls do nothing."""
    try:
        # Without the defaults, so that only what was set is read.
        Config.register_namespace(MCP_NAMESPACE, env_prefix=MCP_ENV_PREFIX)
    except ModuleError as error:
        logger.debug("the section mcp is registered already: %s", error)


def openapi_settings() -> Any:
    """Return `mcp.openapi`, or None."""
    section = _read_section()
    return _document_of(section) if isinstance(section, dict) else None


def _document_of(section: Mapping[str, Any]) -> Any:
    """Return `mcp.openapi`, or None. Variables alone, such as APCORE_MCP_OPENAPI_PREFIX, belong to `--from-openapi`."""
    found = section.get("openapi")
    if isinstance(found, dict) and "spec" not in found and _is_of_variables(f"{MCP_ENV_PREFIX}_openapi", found):
        return None
    return found


def with_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `serve()`: those given, completed by the settings.

    Raises: ValueError for a setting that is wrong or cannot take effect; apcore's ConfigError for a file that cannot be
    read.
    """
    section = _read_section()
    if section is None:
        return dict(given)
    if not isinstance(section, dict):
        raise ValueError(f"the section mcp of apcore's configuration must be a mapping, not {type(section).__name__}")
    options = dict(given)
    found = {**_with_variables(section), "openapi": _document_of(section)}
    empty = next((key for key in _PROTECTING if key in found and found[key] is None), None)
    if empty is not None:
        raise ValueError(f"mcp.{empty} is empty and protects nothing: remove it, or set it")
    settings = {key: value for key, value in found.items() if value is not None}
    for key in settings.keys() - _OPTIONS.keys() - _READERS.keys():
        # A variable of the command is in the section too.
        if not _is_of_variables(f"{MCP_ENV_PREFIX}_{key}", settings[key]):
            raise ValueError(f"mcp.{key} is not a setting; the settings are {', '.join([*_OPTIONS, *_READERS])}")
    # In the order of these tables, not of the file: whether authentication is needed depends on the transport.
    for key, option in _OPTIONS.items():
        if key in settings and option not in options:
            options[option] = _check(key, settings[key])
    for key, read in _READERS.items():
        if key in settings:
            read(settings[key], options)
    return options


def _read_section() -> Any:
    """Return the section, or None. A program may replace `apcore.Config` by one that has only single keys."""
    register_mcp_namespace()
    if not os.environ.get("APCORE_CONFIG_FILE"):
        for name in _FILES:
            # A directory, where a container was to mount a file, or a dangling link. apcore goes on to the next name.
            if os.path.lexists(name) and not os.path.isfile(name):
                raise ValueError(f"{name} is not a file: remove it, or replace it by apcore's configuration")
    config = apcore.Config.load(validate=False)
    section = config.get(MCP_NAMESPACE)
    if section is None:
        keys = (*_OPTIONS, *_READERS)
        section = {key: value for key in keys if (value := config.get(f"{MCP_NAMESPACE}.{key}")) is not None} or None
    return section


def _with_variables(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section with its variables, which take precedence: apcore reads APCORE_MCP_A_B as `{a: {b: ...}}`."""
    settings = dict(section)
    for key in (*_OPTIONS, *_READERS):
        head, _, tail = key.partition("_")
        nested = settings.get(head)
        if tail and isinstance(nested, dict) and tail in nested:
            settings[key] = nested[tail]
            settings[head] = {name: value for name, value in nested.items() if name != tail} or None
    return settings


def _is_of_variables(name: str, value: Any) -> bool:
    """Return whether a value, or all values in it, come from variables."""
    if isinstance(value, dict) and value:
        return all(_is_of_variables(f"{name}_{key}", part) for key, part in value.items())
    return name.upper() in os.environ


def _check(key: str, value: Any) -> Any:
    option = _OPTIONS[key]
    if key in ("validate_inputs", "explorer"):
        return _to_bool(key, value)
    if option == "name" and type(value) in (int, float):
        value = str(value)  # apcore reads a variable such as APCORE_MCP_NAME=42 as a number
    try:
        return getattr(make_options(**{option: value}), option)
    except (TypeError, ValueError) as error:
        raise ValueError(f"mcp.{key}: {error}") from None


def _to_bool(key: str, value: Any) -> bool:
    """Return a switch. apcore reads variables as numbers or text, except `true` and `false`."""
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError(f"mcp.{key} must be true or false, not {value!r}")
    return text in _TRUE


def _read_acl(value: Any, options: dict[str, Any]) -> None:
    if options.get("acl") is not None:
        logger.info("acl= replaces mcp.acl")
        return
    if value == {}:
        raise ValueError("mcp.acl is empty, which protects nothing: remove it, or set mcp.acl.default_effect")
    options["acl"] = build_acl_from_config(value)


def _read_middleware(value: Any, options: dict[str, Any]) -> None:
    options["middleware"] = [*build_middleware_from_config(value), *(options.get("middleware") or ())]


def _read_pipeline(value: Any, options: dict[str, Any]) -> None:
    _mapping("mcp.pipeline", value, _PIPELINE_KEYS)
    if options.get("strategy") is not None:
        logger.warning("mcp.pipeline replaces strategy=")
    options["strategy"] = value


def _read_require_auth(value: Any, options: dict[str, Any]) -> None:
    is_required = _to_bool("require_auth", value)
    if is_required and options.get("auth") is None and options.get("transport", "stdio") != "stdio":
        raise ValueError(
            "mcp.require_auth is true, but there is no authentication: pass auth=, or set APCORE_JWT_SECRET or"
            " --auth-key-env for the command"
        )
    options.setdefault("require_auth", is_required)


def _read_openapi(value: Any, options: dict[str, Any]) -> None:
    from apcore_mcp.compat.openapi import add_operations  # noqa: PLC0415  # only with this setting

    options["extensions"] = (*options.get("extensions", ()), add_operations(value))


# The other keys, in the order in which they are applied, after the options.
_READERS: Final[Mapping[str, Callable[[Any, dict[str, Any]], None]]] = {
    "acl": _read_acl,
    "middleware": _read_middleware,
    "pipeline": _read_pipeline,
    "require_auth": _read_require_auth,
    "openapi": _read_openapi,
}


def build_acl_from_config(acl_config: Any) -> Any:
    """Return an ACL for `mcp.acl`: `{default_effect: deny, rules: [{callers, targets, effect, ...}]}`, or None.

    Raises: ValueError that names the rule.
    """
    if acl_config is None or acl_config == {}:
        return None
    section = _mapping("mcp.acl", acl_config, ("default_effect", "rules"))
    rules = section.get("rules", [])
    if not isinstance(rules, list):
        raise ValueError(f"mcp.acl.rules must be a list, not {type(rules).__name__}")
    effect = section.get("default_effect", "deny")
    if effect not in _EFFECTS:
        raise ValueError(f"mcp.acl.default_effect must be 'allow' or 'deny', not {effect!r}")
    built = [_read_rule(f"mcp.acl.rules[{index}]", rule) for index, rule in enumerate(rules)]
    return ACL(rules=built, default_effect=effect)


def _read_rule(place: str, rule: Any) -> Any:
    _mapping(place, rule, _RULE_KEYS)
    if rule.get("effect") not in _EFFECTS:
        raise ValueError(f"{place}: 'effect' must be 'allow' or 'deny', not {rule.get('effect')!r}")
    for key in ("callers", "targets"):
        if not isinstance(rule.get(key), list) or not rule[key]:
            raise ValueError(f"{place}: {key!r} must be a non-empty list of patterns, not {rule.get(key)!r}")
    if rule.get("approval") not in (None, *_APPROVALS):
        raise ValueError(f"{place}: 'approval' must be 'required' or 'not_required', not {rule['approval']!r}")
    try:
        return ACLRule(**{key: value for key, value in rule.items() if value is not None})
    except (ModuleError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def build_middleware_from_config(entries: Any) -> list[Any]:
    """Return the middleware for `mcp.middleware`: a list of `{type: retry | logging | error_history, ...}`.

    Raises: ValueError that names the entry.
    """
    if not isinstance(entries, list):
        raise ValueError(f"mcp.middleware must be a list, not {type(entries).__name__}")
    return [_read_entry(f"mcp.middleware[{index}]", entry) for index, entry in enumerate(entries)]


def _read_entry(place: str, entry: Any) -> Any:
    if not isinstance(entry, dict):
        raise ValueError(f"{place} must be an object with a 'type', not {type(entry).__name__}")
    if "type" not in entry:
        raise ValueError(f"{place}: missing required 'type' key; use one of {', '.join(_MIDDLEWARE)}")
    options = dict(entry)
    make = _MIDDLEWARE.get(options.pop("type"))
    if make is None:
        raise ValueError(f"{place}: unknown type {entry['type']!r}; use one of {', '.join(_MIDDLEWARE)}")
    middleware, settings = make()
    _mapping(place, options, tuple(inspect.signature(settings).parameters))
    options = convert(place, options, settings.__init__)
    try:
        return middleware(settings(**options))
    except (ModuleError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def _retry() -> tuple[Any, Any]:
    from apcore import RetryConfig, RetryMiddleware  # noqa: PLC0415  # only with this setting

    return RetryMiddleware, RetryConfig


def _logging() -> tuple[Any, Any]:
    from apcore.observability.context_logger import (  # type: ignore[import-untyped]  # noqa: PLC0415
        ObsLoggingMiddleware,
    )

    return lambda made: made, ObsLoggingMiddleware


def _error_history() -> tuple[Any, Any]:
    from apcore import ErrorHistoryMiddleware  # noqa: PLC0415  # only with this setting
    from apcore.observability.error_history import ErrorHistory  # type: ignore[import-untyped]  # noqa: PLC0415

    return ErrorHistoryMiddleware, ErrorHistory


# The class of the middleware, and what makes its only argument from the other keys.
_MIDDLEWARE: Final[Mapping[Any, Callable[[], tuple[Any, Any]]]] = {
    "retry": _retry,
    "logging": _logging,
    "error_history": _error_history,
}


def convert(place: str, values: Mapping[str, Any], function: Any) -> dict[str, Any]:
    """Return settings as the arguments of a function. Raises: ValueError for one that is not of the annotated type."""
    hints = get_type_hints(function)
    converted = {}
    for key, value in values.items():
        try:
            converted[key] = msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"{place}.{key}: {error}") from None
    return converted


def _mapping(place: str, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} must be a mapping, not {type(value).__name__}")
    unknown = sorted(map(str, value.keys() - set(keys)))
    if unknown:
        raise ValueError(f"{place} has unexpected keys {', '.join(map(repr, unknown))}; its keys are {', '.join(keys)}")
    return value


__all__ = [
    "MCP_DEFAULTS",
    "MCP_ENV_PREFIX",
    "MCP_NAMESPACE",
    "build_acl_from_config",
    "build_middleware_from_config",
    "convert",
    "openapi_settings",
    "register_mcp_namespace",
    "with_settings",
]
