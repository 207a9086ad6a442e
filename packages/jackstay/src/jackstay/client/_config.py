"""`mcpServers` configuration files, as MCP hosts write them: `{"mcpServers": {"git": {"command": "uvx", ...}}}`.

`${VAR}` and `${VAR:-default}` are expanded in every string. Unknown members are ignored; invalid ones are errors that
name file and key. Values of variables, `env` and `headers` never appear in errors, logs or a `repr`. Entries are
validated on use, so that an invalid entry does not affect the others.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.transport import StderrTo, StdioTarget, stdio

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget

logger = logging.getLogger("jackstay.client")

# The members that are read. `type` is redundant beside `command` or `url`; `disabled` excludes a server from a fleet.
KNOWN_KEYS = frozenset({"args", "command", "cwd", "disabled", "env", "headers", "type", "url"})

_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Config(msgspec.Struct, eq=False):
    """The servers of a configuration file. Created by `read_config()`; nothing is started."""

    path: str
    # The whole file, and the name and value of its member that has the servers.
    document: Mapping[str, Json]
    section: str
    _servers: Mapping[str, Json]
    _environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<Config {self.path}: {', '.join(self._servers) or 'no servers'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all servers, in the order of the file."""
        return tuple(self._servers)

    def is_disabled(self, name: str) -> bool:
        """Return whether the entry has `"disabled": true`. Raises: UsageError for an unknown name."""
        disabled = self.entry(name).get("disabled", False)
        if not isinstance(disabled, bool):
            raise self.error(f"{self.section}.{name}.disabled", "must be true or false")
        return disabled

    def target(self, name: str, *, stderr: StderrTo = "log") -> "StdioTarget | HttpTarget":
        """Return the target for this server; `stderr` as for `stdio()`.

        Raises: UsageError that names file and key.
        """
        entry, at = self.entry(name), f"{self.section}.{name}"
        ignored = sorted(entry.keys() - KNOWN_KEYS)
        if ignored:
            logger.debug("%s: %s has unknown members, which are ignored: %s", self.path, at, ", ".join(ignored))
        self._check_kind(entry, at)
        if "url" in entry:
            return self._http_target(entry, at, name)
        command = self.string(entry["command"], f"{at}.command")
        arguments = self._strings(entry.get("args", []), f"{at}.args")
        env = self._values(entry.get("env", {}), f"{at}.env")
        cwd = entry.get("cwd")
        folder = None if cwd is None else self.string(cwd, f"{at}.cwd")
        try:
            return stdio(command, *arguments, env=env, cwd=folder, name=name, stderr=stderr)
        except UsageError as error:
            # The original message may quote the value of a variable, so it is not even attached as the cause.
            key = f"{at}.{error.path}" if error.path in KNOWN_KEYS else at
            raise self.error(key, "contains a character that cannot be passed to a program") from None

    def _http_target(self, entry: dict[str, Json], at: str, name: str) -> "HttpTarget":
        from jackstay.transport.http import http  # noqa: PLC0415  # most files have only commands

        url = self.string(entry["url"], f"{at}.url")
        headers = self._values(entry.get("headers", {}), f"{at}.headers")
        try:
            return http(url, headers=headers, name=name)
        except UsageError as error:
            # A URL may contain the value of a variable. The message about headers quotes only names, from the file.
            if error.path == "headers":
                raise self.error(f"{at}.headers", f"is invalid: {error.message}") from None
            problem = f"is invalid: {error.message}" if "$" not in str(entry["url"]) else "is not a valid URL"
            raise self.error(f"{at}.url", problem) from None

    def display(self, name: str) -> tuple[str, ...]:
        """Return the command and its arguments, or the URL, for display: variables are not expanded, `env` is omitted.

        Raises: UsageError, as `target()`.
        """
        self.target(name)  # raises for an entry that cannot be used
        entry = self.entry(name)
        if "url" in entry:
            return (str(entry["url"]).partition("?")[0],)
        arguments = entry.get("args", [])
        assert isinstance(arguments, list)  # checked by `target()`
        return (str(entry["command"]), *(str(argument) for argument in arguments))

    def env_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the environment variables, or headers, of this server. Raises: as `target()`."""
        self.target(name)
        entry = self.entry(name)
        env = entry.get("headers" if "url" in entry else "env", {})
        assert isinstance(env, dict)  # checked by `target()`
        return tuple(env)

    # --- reading ------------------------------------------------------------------------------------------------------

    def entry(self, name: str) -> dict[str, Json]:
        """Return the entry of this server as it is in the file. Raises: UsageError."""
        if name not in self._servers:
            known = ", ".join(map(repr, self._servers)) or "none"
            raise UsageError(f"{self.path}: unknown server {name!r}; servers: {known}", path=self.section)
        entry = self._servers[name]
        if not isinstance(entry, dict):
            raise self.error(f"{self.section}.{name}", "must be an object")
        return entry

    def _check_kind(self, entry: dict[str, Json], at: str) -> None:
        kind = entry.get("type", "stdio" if "url" not in entry else "http")
        if kind not in ("stdio", "http", "streamable-http", "streamableHttp", "sse"):
            raise self.error(f"{at}.type", "must be 'stdio', 'http' or 'sse'")
        if "url" in entry and "command" in entry:
            raise self.error(at, "has both command and url; remove one")
        if "url" in entry and kind == "stdio":
            raise self.error(f"{at}.type", "must not be 'stdio' beside a url")
        if kind != "stdio" and "url" not in entry:
            raise self.error(at, "has no url")
        if kind == "stdio" and "command" not in entry:
            raise self.error(at, "has no command")

    def _strings(self, value: Json, key: str) -> list[str]:
        if not isinstance(value, list):
            raise self.error(key, "must be an array of strings")
        return [self.string(item, f"{key}[{index}]") for index, item in enumerate(value)]

    def _values(self, value: Json, key: str) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.error(key, "must be an object of strings")
        return {name: self.string(item, f"{key}.{name}") for name, item in value.items()}

    def string(self, value: Json, key: str) -> str:
        """Return the string at `key` with its variables expanded. Raises: UsageError."""
        if not isinstance(value, str):
            raise self.error(key, "must be a string")

        def expand(reference: re.Match[str]) -> str:
            parts = _VARIABLE.fullmatch(reference[1]) if reference[0].endswith("}") else None
            if parts is None:
                raise self.error(key, "has an invalid reference; write ${VAR} or ${VAR:-default}")
            name, default = parts[1], parts[2]
            variable = self._environment.get(name)
            if default is not None:
                return variable or default  # as in a shell, an empty variable counts as unset
            if variable is None:
                raise self.error(
                    key, f"uses the environment variable {name}, which is not set; set it or write ${{{name}:-default}}"
                )
            return variable

        return _REFERENCE.sub(expand, value)

    def error(self, key: str, problem: str) -> UsageError:
        """Return the error for a member of the file."""
        error = UsageError(f"{self.path}: {key} {problem}", path=key)
        error.details["file"] = self.path
        return error


def read_config(path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> Config:
    """Read a configuration file. `environment` provides the variables; default: `os.environ`.

    A file whose name ends in `.toml` has the servers in tables `[servers.NAME]`, with the same members.

    Raises: UsageError for a file that cannot be read; for invalid JSON or TOML with line and column.
    """
    file = os.fspath(path)
    try:
        # utf-8-sig: editors on Windows write a byte order mark.
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}", path=file) from error
    except ValueError as error:  # not UTF-8, or a path with a NUL
        raise UsageError(f"cannot read {file}: not UTF-8", path=file) from error
    section = "servers" if file.endswith(".toml") else "mcpServers"
    parsed = _parse(text, file)
    document = parsed if isinstance(parsed, dict) else {}
    servers = document.get(section)
    if not isinstance(servers, dict):
        if section == "servers":
            raise UsageError(f"{file} has no table [servers.NAME]", path=file)
        raise UsageError(f'{file} has no object "mcpServers"{_hint(document)}', path=file)
    return Config(file, document, section, servers, os.environ if environment is None else environment)


def _parse(text: str, file: str) -> Json:
    try:
        if file.endswith(".toml"):
            import tomllib  # noqa: PLC0415  # few files are TOML

            return tomllib.loads(text)
        document: Json = json.loads(text)
    except RecursionError as error:
        raise UsageError(f"{file} is nested too deeply", path=file) from error
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{file} is not valid JSON: {error.msg}, {position}", path=file) from error
    except ValueError as error:
        raise UsageError(f"{file} is not valid TOML: {error}", path=file) from error
    return document


def _hint(members: Mapping[str, Json]) -> str:
    """Return what to change in a file of another layout.

    It is not read as is: a file of commands must not be guessed.
    """
    if isinstance(members.get("servers"), dict):
        return '; it has "servers", the layout of VS Code: rename the member to "mcpServers" in a copy'
    if any(isinstance(member, dict) and member.keys() & {"command", "url"} for member in members.values()):
        return '; wrap its content in {"mcpServers": {...}}'
    return ""
