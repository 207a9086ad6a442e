"""The configuration of a gateway: a TOML file with tables `[servers.NAME]`, or an `mcpServers` file.

The members of a server are those of `mcpServers` and, for the gateway, `prefix`, `timeout`, `wait`, `allow`, `deny` and
`transforms`.
`[keys]`, `[jwt]` and `[access.PRINCIPAL]` control who may use what. Errors name file and key.
"""

import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jackstay.client import Config, read_config
from jackstay.errors import Json, UsageError, did_you_mean
from jackstay.proxy._options import ProxyOptions
from jackstay.server import Argument, Transform, Transforms
from jackstay.transport import Target

if TYPE_CHECKING:
    from jackstay.server.http import AuthLike, TokenVerifier

# The members of a server.
SERVER_MEMBERS: Final = frozenset(
    {"allow", "args", "command", "cwd", "deny", "disabled", "env", "headers"}
    | {"prefix", "timeout", "transforms", "type", "url", "wait"}
)
_MEMBERS: Final = ("access", "jwt", "keys", "name", "servers")
_JWT_MEMBERS: Final = ("audience", "issuer", "jwks", "resource", "scopes")
_ACCESS_MEMBERS: Final = ("servers", "tools")
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?"

# The rule for principals that have none of their own.
DEFAULT: Final = "*"


class Rule(msgspec.Struct, frozen=True):
    """What a principal may use: servers by name, and tools by patterns of their names in the catalogue."""

    servers: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ("*",)

    def has_server(self, name: str) -> bool:
        """Return whether the server is visible."""
        return self.servers is None or name in self.servers

    def has_tool(self, name: str) -> bool:
        """Return whether the tool is visible."""
        return _matches(name, self.tools)


EVERYTHING: Final = Rule()
NOTHING: Final = Rule((), ())

# The rule of the caller of `/health` or `/metrics`, which show only the servers that it may use.
RULE: Final[ContextVar[Rule]] = ContextVar("jackstay_gateway_rule", default=EVERYTHING)


class UpstreamConfig(msgspec.Struct, frozen=True):
    """One server behind the gateway. `entry` is its part of the file, to detect changes."""

    name: str
    entry: Mapping[str, Json]
    target: Target
    prefix: str
    options: ProxyOptions
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    transforms: Transforms

    def allows(self, tool: str) -> bool:
        """Return whether the gateway serves this tool of the server."""
        return _matches(tool, self.allow) and not _matches(tool, self.deny)

    def catalogue_name(self, tool: str) -> str:
        """Return the name of a tool of the server in the catalogue."""
        row = next((row for key, row in self.transforms.items() if fnmatchcase(tool, key)), None)
        name = tool if row is None or row.name is None else row.name
        return f"{self.prefix}_{name}" if self.prefix else name


class GatewayConfig(msgspec.Struct, frozen=True):
    """The content of a file. `rules` are by principal; None: everything is visible to all."""

    name: str
    upstreams: Mapping[str, UpstreamConfig]
    keys: Mapping[str, tuple[str, ...]]
    jwt: Mapping[str, Any] | None
    rules: Mapping[str, Rule] | None

    @property
    def has_auth(self) -> bool:
        """True if callers must authenticate."""
        return bool(self.keys) or self.jwt is not None

    def rule_for(self, principal: str) -> Rule:
        """Return what this principal may use."""
        if self.rules is None:
            return EVERYTHING
        return self.rules.get(principal) or self.rules.get(DEFAULT) or NOTHING

    def verifiers(self) -> "list[TokenVerifier]":
        """Return verifiers for the keys and tokens. Raises: UsageError, for example for a key that is too short."""
        from jackstay.server.http import JwtVerifier, keys  # noqa: PLC0415  # only over HTTP

        found: list[TokenVerifier] = [keys(self.keys)] if self.keys else []
        if self.jwt is not None:
            given = {name: self.jwt[name] for name in ("issuer", "audience", "jwks")}
            found.append(JwtVerifier(**given))
        return found

    def auth(self, verifier: "TokenVerifier") -> "AuthLike":
        """Return the authentication of the endpoint, which delegates to `verifier`."""
        from jackstay.server.http import BearerAuth  # noqa: PLC0415  # only over HTTP

        if self.jwt is None:
            return BearerAuth(verifier)
        servers, resource = [self.jwt["issuer"]], self.jwt["resource"]
        return BearerAuth(verifier, authorization_servers=servers, resource=resource, scopes=self.jwt["scopes"])


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_gateway(path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> GatewayConfig:
    """Read a configuration file; nothing is started. Raises: UsageError that names file and key."""
    config = read_config(path, environment=environment)
    document = config.document
    if config.section == "servers":
        _refuse_unknown(config, document, _MEMBERS, "")
    upstreams = {name: _upstream(config, name) for name in config.names if not config.is_disabled(name)}
    if not upstreams:
        raise UsageError(f"{config.path} has no server that is not disabled", path=config.section)
    prefixes: dict[str, str] = {}
    for name, upstream in upstreams.items():
        other = prefixes.setdefault(upstream.prefix, name)
        if other != name and upstream.prefix:
            raise config.error(f"{config.section}.{name}.prefix", f"is the same as that of {other}; use another one")
    keys, jwt = _keys(config), _jwt(config)
    name = config.string(document.get("name", "gateway"), "name")
    rules = _rules(config, upstreams)
    if rules is not None and not keys and jwt is None:
        raise config.error("access", "needs [keys] or [jwt], which identify the callers")
    return GatewayConfig(name, upstreams, keys, jwt, rules)


def _upstream(config: Config, name: str) -> UpstreamConfig:
    at = f"{config.section}.{name}"
    entry = config.entry(name)
    if config.section == "servers":  # other hosts have members of their own in an mcpServers file
        _refuse_unknown(config, entry, SERVER_MEMBERS, f"{at}.")
    if re.fullmatch(_NAME, name) is None:
        raise config.error(at, "has an invalid name; use letters, digits, _ . -")
    prefix = entry.get("prefix", name)
    if prefix != "" and (not isinstance(prefix, str) or re.fullmatch(_NAME, prefix) is None):
        raise config.error(f"{at}.prefix", "must be letters, digits, _ . - (at most 64), or empty for none")
    options: dict[str, Any] = {}
    for option in ("timeout", "wait"):
        value = entry.get(option)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise config.error(f"{at}.{option}", "must be a number of seconds")
        options[option] = float(value)
    try:
        proxy_options = ProxyOptions(**options)
    except UsageError as error:
        raise config.error(f"{at}.{error.path}", f"is out of range: {error.message}") from error
    return UpstreamConfig(
        name=name,
        entry=dict(entry),
        target=config.target(name),
        prefix=prefix,
        options=proxy_options,
        allow=_patterns(config, entry.get("allow", ["*"]), f"{at}.allow"),
        deny=_patterns(config, entry.get("deny", []), f"{at}.deny"),
        transforms=_transforms(config, entry.get("transforms", {}), f"{at}.transforms"),
    )


def _transforms(config: Config, table: Json, at: str) -> Transforms:
    if not isinstance(table, dict):
        raise config.error(at, "must be a table")
    found: dict[str, Transform | None] = {}
    for key, row in table.items():
        if row is None or row is False:
            found[key] = None
            continue
        if not isinstance(row, dict):
            raise config.error(f"{at}.{key}", "must be a table, or false to hide what it matches")
        _refuse_unknown(config, row, Transform.__struct_fields__, f"{at}.{key}.")
        arguments = row.get("arguments", {})
        for name, argument in arguments.items() if isinstance(arguments, dict) else ():
            if isinstance(argument, dict):
                _refuse_unknown(config, argument, Argument.__struct_fields__, f"{at}.{key}.arguments.{name}.")
        try:
            found[key] = msgspec.convert(row, Transform)
        except msgspec.ValidationError as error:
            raise config.error(f"{at}.{key}", f"is invalid: {error}") from error
    return found


def _keys(config: Config) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, given in _table(config, "keys").items():
        secrets = given if isinstance(given, list) else [given]
        found[name] = tuple(config.string(secret, f"keys.{name}") for secret in secrets)
    return found


def _jwt(config: Config) -> dict[str, Any] | None:
    if "jwt" not in config.document:
        return None
    table = _table(config, "jwt")
    _refuse_unknown(config, table, _JWT_MEMBERS, "jwt.")
    found: dict[str, Any] = {}
    for name in ("issuer", "audience", "jwks"):
        if name not in table:
            raise config.error("jwt", f"has no {name}")
        found[name] = config.string(table[name], f"jwt.{name}")
    found["resource"] = config.string(table.get("resource", found["audience"]), "jwt.resource")
    found["scopes"] = _patterns(config, table.get("scopes", []), "jwt.scopes")
    return found


def _rules(config: Config, upstreams: Mapping[str, UpstreamConfig]) -> dict[str, Rule] | None:
    if "access" not in config.document:
        return None
    rules: dict[str, Rule] = {}
    for principal, given in _table(config, "access").items():
        at = f"access.{principal}"
        if not isinstance(given, dict):
            raise config.error(at, "must be a table")
        _refuse_unknown(config, given, _ACCESS_MEMBERS, f"{at}.")
        servers = None
        if "servers" in given:
            servers = _patterns(config, given["servers"], f"{at}.servers")
            for server in servers:
                if server not in upstreams:
                    problem = f"names the unknown server {server!r}{did_you_mean(server, upstreams)}"
                    raise config.error(f"{at}.servers", problem)
        rules[principal] = Rule(servers, _patterns(config, given.get("tools", ["*"]), f"{at}.tools"))
    return rules


def _table(config: Config, name: str) -> dict[str, Json]:
    table = config.document.get(name, {})
    if not isinstance(table, dict):
        raise config.error(name, "must be a table")
    return table


def _patterns(config: Config, value: Json, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise config.error(key, "must be an array of strings")
    return tuple(str(item) for item in value)


def _refuse_unknown(config: Config, table: Mapping[str, Json], known: Any, at: str) -> None:
    for name in table:
        if name not in known:
            valid = ", ".join(sorted(known))
            raise config.error(f"{at}{name}", f"is unknown{did_you_mean(name, known)}; members: {valid}")
