"""Files that name servers: the `{"mcpServers": {...}}` that hosts write, read when its path is given and never searched for.

    {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "${GIT_TOKEN}"}, "cwd": "/src"},
                    "docs": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}}}}

`${VAR}` and `${VAR:-default}` stand for variables of ours, in every text; the default is for an unset and for an empty one,
as a shell has it. Members that hosts add for themselves are let be. A file names commands to run, so nothing in it is
guessed: what cannot be understood is refused, by file and key. What a variable holds, and the values of `env` and `headers`,
are never shown: not in errors, not in logs, not in a `repr`.

Each server is read when it is asked for: a mistake in one does not keep the others from being used.

Above: `_fleet`, the commands. Below: `jackstay.transport`, which makes targets.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jackstay.errors import Json, UsageError
from jackstay.transport import StderrTo, StdioTarget, stdio

if TYPE_CHECKING:
    from jackstay.transport.http import HttpTarget

logger = logging.getLogger("jackstay.client")

T = TypeVar("T")

# The members we read. `type` is the word of several hosts for what `command` and `url` say anyway; `disabled` leaves a
# server out of a fleet.
KNOWN_KEYS = frozenset({"args", "command", "cwd", "disabled", "env", "headers", "type", "url"})

_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Config:
    """The servers that a file names. Made by `read_config()`; nothing is started."""

    def __init__(self, path: str, servers: Mapping[str, Json], environment: Mapping[str, str]) -> None:
        self.path = path
        self._servers = servers
        self._environment = environment

    def __repr__(self) -> str:
        return f"<Config {self.path}: {', '.join(self._servers) or 'no servers'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Every server, in the order of the file."""
        return tuple(self._servers)

    def is_disabled(self, name: str) -> bool:
        """True if the file says that a host should leave it alone. Raises: UsageError for a name that is not there."""
        disabled = self._entry(name).get("disabled", False)
        if not isinstance(disabled, bool):
            raise self._refusal(f"mcpServers.{name}.disabled", "must be true or false")
        return disabled

    def target(self, name: str, *, stderr: StderrTo = "log") -> "StdioTarget | HttpTarget":
        """How to start or reach that server; `stderr` as for `stdio()`.

        Raises: UsageError, naming file and key.
        """
        entry, at = self._entry(name), f"mcpServers.{name}"
        ignored = sorted(entry.keys() - KNOWN_KEYS)
        if ignored:
            logger.debug("%s: %s has members that are not ours: %s", self.path, at, ", ".join(ignored))
        self._check_kind(entry, at)
        if "url" in entry:
            return self._http_target(entry, at, name)
        command = self._text(entry["command"], f"{at}.command")
        arguments = self._each(entry.get("args", []), f"{at}.args", list, self._texts)
        env = self._each(entry.get("env", {}), f"{at}.env", dict, self._values)
        cwd = entry.get("cwd")
        folder = None if cwd is None else self._text(cwd, f"{at}.cwd")
        try:
            return stdio(command, *arguments, env=env, cwd=folder, name=name, stderr=stderr)
        except UsageError as error:
            # Its own words may quote what it was given, and that may come from a variable: not shown, not even as a cause.
            key = f"{at}.{error.path}" if error.path in KNOWN_KEYS else at
            raise self._refusal(key, "has text that no program can be given") from None

    def _http_target(self, entry: dict[str, Json], at: str, name: str) -> "HttpTarget":
        from jackstay.transport.http import http  # noqa: PLC0415  # most files name only commands

        url = self._text(entry["url"], f"{at}.url")
        headers = self._each(entry.get("headers", {}), f"{at}.headers", dict, self._values)
        try:
            return http(url, headers=headers, name=name)
        except UsageError as error:
            # A URL and a header may hold what a variable does. Names of headers come from the file itself.
            if error.path == "headers":
                raise self._refusal(f"{at}.headers", f"cannot be sent: {error.message}") from None
            what = "is refused: " + error.message if "$" not in str(entry["url"]) else "is no URL to be used"
            raise self._refusal(f"{at}.url", what) from None

    def shown(self, name: str) -> tuple[str, ...]:
        """The command and its arguments, or the URL, as the file writes them, for people: variables by name, and no `env`.

        Raises: UsageError, as `target()`.
        """
        self.target(name)  # a file that cannot be used is not shown as if it could
        entry = self._entry(name)
        if "url" in entry:
            return (str(entry["url"]).partition("?")[0],)
        arguments = entry.get("args", [])
        assert isinstance(arguments, list)  # `target()` has looked
        return (str(entry["command"]), *(str(word) for word in arguments))

    def env_names(self, name: str) -> tuple[str, ...]:
        """Which variables, or headers, the file sets for that server: their names only. Raises: UsageError, as `target()`."""
        self.target(name)
        entry = self._entry(name)
        env = entry.get("headers" if "url" in entry else "env", {})
        assert isinstance(env, dict)  # `target()` has looked
        return tuple(env)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _entry(self, name: str) -> dict[str, Json]:
        if name not in self._servers:
            known = ", ".join(self._servers) or "none at all"
            raise UsageError(f"{self.path} names no server {name!r}; it names {known}", path="mcpServers")
        entry = self._servers[name]
        if not isinstance(entry, dict):
            raise self._refusal(f"mcpServers.{name}", "must be an object")
        return entry

    def _check_kind(self, entry: dict[str, Json], at: str) -> None:
        kind = entry.get("type", "stdio" if "url" not in entry else "http")
        if kind not in ("stdio", "http", "streamable-http", "streamableHttp", "sse"):
            raise self._refusal(f"{at}.type", "must be stdio, http or sse")
        if "url" in entry and "command" in entry:
            raise self._refusal(at, "has both a command and a url: one server is one of them")
        if "url" in entry and kind == "stdio":
            raise self._refusal(f"{at}.type", "is stdio, but there is a url")
        if kind != "stdio" and "url" not in entry:
            raise self._refusal(at, "has no url")
        if kind == "stdio" and "command" not in entry:
            raise self._refusal(at, "has no command")

    def _each(self, value: Json, key: str, kind: type, read: Callable[[Json, str], T]) -> T:
        if not isinstance(value, kind):
            raise self._refusal(key, f"must be {'a list' if kind is list else 'an object'} of text")
        return read(value, key)

    def _texts(self, value: Json, key: str) -> list[str]:
        assert isinstance(value, list)  # `_each()` has looked
        return [self._text(word, f"{key}[{place}]") for place, word in enumerate(value)]

    def _values(self, value: Json, key: str) -> dict[str, str]:
        assert isinstance(value, dict)  # `_each()` has looked
        return {name: self._text(text, f"{key}.{name}") for name, text in value.items()}

    def _text(self, value: Json, key: str) -> str:
        if not isinstance(value, str):
            raise self._refusal(key, "must be text")

        def expand(reference: re.Match[str]) -> str:
            parts = _VARIABLE.fullmatch(reference[1]) if reference[0].endswith("}") else None
            if parts is None:
                raise self._refusal(key, "has a ${...} that is neither ${VAR} nor ${VAR:-default}")
            name, default = parts[1], parts[2]
            held = self._environment.get(name)
            if default is not None:
                return held or default
            if held is None:
                raise self._refusal(
                    key, f"needs the variable {name}, which is not set: set it, or write ${{{name}:-default}}"
                )
            return held

        return _REFERENCE.sub(expand, value)

    def _refusal(self, key: str, what: str) -> UsageError:
        error = UsageError(f"{self.path}: {key} {what}", path=key)
        error.details["file"] = self.path
        return error


def read_config(path: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> Config:
    """The servers that the file at `path` names. `environment` is where variables are looked up: ours, if it is not given.

    Raises: UsageError for a file that cannot be read, with line and column where it is no JSON.
    """
    shown = os.fspath(path)
    try:
        # Editors on Windows begin a file with a mark that JSON does not have; in a file it harms nobody.
        text = Path(shown).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror or error}", path=shown) from error
    except ValueError as error:  # not UTF-8, or a path with a NUL
        raise UsageError(f"cannot read {shown}: it is not UTF-8 text", path=shown) from error
    try:
        document: Json = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{shown} is not JSON: {error.msg}, {place}", path=shown) from error
    except RecursionError as error:
        raise UsageError(f"{shown} is nested too deeply", path=shown) from error
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        said = f'{shown} has no object "mcpServers" that names servers{_meant(document)}'
        raise UsageError(said, path=shown)
    return Config(shown, servers, os.environ if environment is None else environment)


def _meant(document: Json) -> str:
    """What to do with the file of a host that calls it otherwise. It is not read as if: nothing in such a file is guessed."""
    members = document if isinstance(document, dict) else {}
    if isinstance(members.get("servers"), dict):
        return '; it has "servers", as VS Code writes it: in a copy for us, call that "mcpServers"'
    if any(isinstance(member, dict) and member.keys() & {"command", "url"} for member in members.values()):
        return '; write {"mcpServers": {...}} around what it has'
    return ""
