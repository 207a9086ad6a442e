"""The programs that use MCP servers (hosts): where each keeps its servers, and how an entry is written.

The facts are from the documentation of each program. A file is only changed after the change was verified, and the
previous file is kept beside it.
"""

import base64
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from jackstay.errors import UsageError, did_you_mean
from jackstay.shell._config_text import Entry, change_entry, read_text
from jackstay.shell._screen import DIM, GREEN, RED, Screen, escape_controls

BACKUP_SUFFIX = ".jackstay-backup"
# Members whose values may be secrets and are not shown: variables and headers, and members with such a name.
SECRET_MEMBERS = frozenset(("env", "envs", "headers", "http_headers"))
SECRET_NAME = re.compile(r"token|secret|passw|credential|authorization|api[-_]?key", re.IGNORECASE)
# Options of our own commands whose values are 'NAME: VALUE'.
HEADER_OPTIONS = ("--header", "--openapi-header")
HIDDEN = "***"
# A shorter value is hidden only beside its name; elsewhere in a line it may be part of another word.
MIN_SECRET = 6
# Codex and `claude mcp add` refuse other names.
PLAIN_NAME = "[A-Za-z0-9_-]+"


class HostedServer(NamedTuple):
    """A server as a host starts or reaches it: a command with its environment, or a URL with its headers."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    url: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


class Host(NamedTuple):
    """One host. `paths` are by platform (`linux`, `darwin`, `win32`); `~` and `%APPDATA%` are expanded."""

    name: str
    title: str
    paths: Mapping[str, str]
    section: str = "mcpServers"
    form: str = "json"
    # The file in the directory of a project, if the host reads one.
    project: str = ""
    # The member that has the URL; empty if the host only starts programs.
    url_key: str = "url"
    # Whether an entry has a member `type` with `stdio` or `http`.
    has_type: bool = False
    # The names that the host accepts, as a regular expression; empty for all.
    name_pattern: str = ""

    def path(self, *, in_project: bool = False) -> Path:
        """Return the file. Raises: UsageError if the host has none for a project or for this platform."""
        if in_project:
            if not self.project:
                raise UsageError(f"{self.title} has no file for a project; leave out --project", path="--project")
            return Path(self.project).absolute()
        platform = sys.platform if sys.platform in self.paths else "linux"
        text = self.paths[platform].replace("%APPDATA%", os.environ.get("APPDATA", "~/AppData/Roaming"))
        config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        return Path(text.replace("~/.config", config, 1)).expanduser()


def _everywhere(path: str) -> dict[str, str]:
    return {"linux": path}


def _by_platform(name: str) -> dict[str, str]:
    return {
        "linux": f"~/.config/{name}",
        "darwin": f"~/Library/Application Support/{name}",
        "win32": f"%APPDATA%/{name}",
    }


# The supported hosts.
HOSTS = (
    Host("claude-desktop", "Claude Desktop", _by_platform("Claude/claude_desktop_config.json"), url_key=""),
    Host(
        "claude-code",
        "Claude Code",
        _everywhere("~/.claude.json"),
        project=".mcp.json",
        has_type=True,
        name_pattern=PLAIN_NAME,
    ),
    Host("cursor", "Cursor", _everywhere("~/.cursor/mcp.json"), project=".cursor/mcp.json"),
    Host(
        "vscode",
        "VS Code",
        _by_platform("Code/User/mcp.json"),
        section="servers",
        project=".vscode/mcp.json",
        has_type=True,
    ),
    Host("windsurf", "Windsurf", _everywhere("~/.codeium/windsurf/mcp_config.json"), url_key="serverUrl"),
    Host(
        "gemini",
        "Gemini CLI",
        _everywhere("~/.gemini/settings.json"),
        project=".gemini/settings.json",
        url_key="httpUrl",
    ),
    Host(
        "codex",
        "Codex CLI",
        _everywhere("~/.codex/config.toml"),
        section="mcp_servers",
        form="toml",
        name_pattern=PLAIN_NAME,
    ),
    Host(
        "goose",
        "Goose",
        {**_everywhere("~/.config/goose/config.yaml"), "win32": "%APPDATA%/Block/goose/config/config.yaml"},
        section="extensions",
        form="yaml",
        url_key="uri",
    ),
    Host(
        "zed",
        "Zed",
        {**_everywhere("~/.config/zed/settings.json"), "win32": "%APPDATA%/Zed/settings.json"},
        section="context_servers",
        project=".zed/settings.json",
    ),
)


def find_host(name: str) -> Host:
    """Return the host of that name. Raises: UsageError that suggests one."""
    for host in HOSTS:
        if host.name == name:
            return host
    names = [host.name for host in HOSTS]
    raise UsageError(
        f"unknown host {name!r}{did_you_mean(name, names) or ';'} supported hosts: {', '.join(names)}", path="HOST"
    )


def to_entry(host: Host, name: str, server: HostedServer) -> Entry:
    """Return the entry of a server in the file of a host."""
    if server.url and not host.url_key:
        # The host only starts programs: our proxy connects it to the URL.
        server = HostedServer((sys.executable, "-m", "jackstay", "proxy", *_header_options(server), server.url))
    entry: Entry
    if host.name == "goose":
        start: Entry = (
            {"type": "streamable_http", "uri": server.url, "headers": dict(server.headers), "envs": {}}
            if server.url
            else {
                "type": "stdio",
                "cmd": server.command[0],
                "args": list(server.command[1:]),
                "envs": dict(server.environment),
            }
        )
        return {"name": name, "enabled": True, "timeout": 300, **start}
    if server.url:
        entry = {"type": "http"} if host.has_type else {}
        entry[host.url_key] = server.url
        if server.headers:
            entry["http_headers" if host.form == "toml" else "headers"] = dict(server.headers)
        return entry
    entry = {"type": "stdio"} if host.has_type else {}
    entry |= {"command": server.command[0], "args": list(server.command[1:])}
    if server.environment:
        entry["env"] = dict(server.environment)
    return entry


def _header_options(server: HostedServer) -> list[str]:
    return [word for name, value in server.headers.items() for word in ("--header", f"{name}: {value}")]


def from_entry(entry: Any) -> HostedServer | None:
    """Return the server of an entry, or None if it is not a server that is on."""
    if not isinstance(entry, dict) or entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    command: Any = entry.get("command", entry.get("cmd"))
    arguments = entry.get("args") or []
    environment = entry.get("env", entry.get("envs")) or {}
    headers = entry.get("headers", entry.get("http_headers")) or {}
    if not isinstance(environment, dict) or not isinstance(headers, dict):
        return None
    if isinstance(command, dict):  # Zed, older files
        command, arguments = command.get("path"), command.get("args") or []
    if isinstance(command, str) and isinstance(arguments, list):
        return HostedServer(
            (command, *map(str, arguments)), {str(key): str(value) for key, value in environment.items()}
        )
    for key in ("url", "httpUrl", "serverUrl", "uri"):
        if isinstance(entry.get(key), str):
            return HostedServer(url=entry[key], headers={str(name): str(value) for name, value in headers.items()})
    return None


def deep_link(host: Host, name: str, server: HostedServer) -> str:
    """Return the link that installs the server when it is opened, or an empty string."""
    entry = to_entry(host, name, server)
    if host.name == "cursor":
        config = base64.b64encode(json.dumps(entry, separators=(",", ":")).encode()).decode()
        query = f"name={quote(name, safe='')}&config={quote(config, safe='')}"
        return f"cursor://anysphere.cursor-deeplink/mcp/install?{query}"
    if host.name == "vscode":
        return f"vscode:mcp/install?{quote(json.dumps({'name': name, **entry}, separators=(',', ':')), safe='')}"
    return ""


def servers_in(host: Host, path: Path) -> dict[str, Entry]:
    """Return the entries of a host's file; empty if there is no file. Raises: UsageError for an invalid file."""
    text = _read(path)
    try:
        section = read_text(text, host.form).get(host.section)
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}", path=str(path)) from None
    return section if isinstance(section, dict) else {}


def changed_text(host: Host, path: Path, name: str, entry: Entry | None) -> tuple[str, str]:
    """Return the text of a host's file before and after the change of one entry.

    Raises: UsageError if the file cannot be read, or not be changed without changing anything else.
    """
    before = _read(path)
    try:
        return before, change_entry(before, host.form, host.section, name, entry)
    except ValueError as error:
        what = "" if entry is None else f"; add it by hand: {_without_secrets({name: entry})}"
        raise UsageError(f"cannot change {path}: {error}{what}", path=str(path)) from None


def config_text(host: Host, name: str, entry: Entry) -> str:
    """Return the file of a host with this entry only."""
    return change_entry("", host.form, host.section, name, entry).rstrip()


class HostChange(NamedTuple):
    """A change to the file of a host: the lines of the difference without secrets, and what was done."""

    difference: list[str]
    report: list[str]

    def show(self) -> None:
        """Print the change."""
        screen = Screen()
        colours = {"+": GREEN, "-": RED}
        for line in self.difference:
            screen.print_line(screen.paint(escape_controls(line), colours.get(line[:1], DIM)))
        for line in self.report:
            screen.print_line(line)


def install_server(
    host: Host,
    name: str,
    server: HostedServer,
    *,
    in_project: bool = False,
    replace: bool = False,
    dry_run: bool = False,
) -> HostChange:
    """Add a server to the file of a host. Raises: UsageError if there is one of this name, unless it is replaced."""
    if host.name_pattern and not re.fullmatch(host.name_pattern, name):
        raise UsageError(
            f"{host.title} does not accept the name {name!r}: use letters, digits, '-' and '_' only", path="--name"
        )
    path = host.path(in_project=in_project)
    with _locked(path):
        if name in servers_in(host, path) and not replace:
            raise UsageError(f"{path} already has a server {name!r}; use --replace or --name", path="--name")
        before, after = changed_text(host, path, name, to_entry(host, name, server))
        return _apply(host, path, before, after, f"added {name!r} to {host.title}", dry_run=dry_run)


def uninstall_server(host: Host, name: str, *, in_project: bool = False, dry_run: bool = False) -> HostChange:
    """Remove a server from the file of a host. Raises: UsageError if it has none of this name."""
    path = host.path(in_project=in_project)
    with _locked(path):
        names = servers_in(host, path)
        if name not in names:
            raise UsageError(f"{path} has no server {name!r}{did_you_mean(name, names)}", path="NAME")
        before, after = changed_text(host, path, name, None)
        return _apply(host, path, before, after, f"removed {name!r} from {host.title}", dry_run=dry_run)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Exclude other programs of ours while the file is read and replaced. Other programs have no lock to share."""
    directory = next(parent for parent in Path(os.path.realpath(path)).parents if parent.is_dir())
    descriptor = -1
    # Without a lock, on Windows and some network drives, a change in between is still refused by `write_config`.
    with contextlib.suppress(ImportError, OSError):
        import fcntl  # noqa: PLC0415 - not on Windows

        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _apply(host: Host, path: Path, before: str, after: str, done: str, *, dry_run: bool) -> HostChange:
    import difflib  # noqa: PLC0415  # slow to import, and rarely needed

    secrets = {pair for text in (before, after) for pair in _secrets(read_text(text, host.form))}
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
    lines = [_redact(line, secrets) for line in compared]
    if dry_run:
        return HostChange(lines, ["nothing was written (--dry-run)"])
    backup = write_config(path, before, after)
    kept = [] if backup is None else [f"the previous file: {backup}"]
    return HostChange(lines, [f"{done}: {path}", *kept, f"restart {host.title} to use the change"])


def _secrets(value: Any, name: str = "", *, is_secret: bool = False) -> Iterator[tuple[str, str]]:
    """Iterate over the names and values of a document that are not shown."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _secrets(member, str(key), is_secret=is_secret or key in SECRET_MEMBERS)
    elif isinstance(value, list):
        for before, item in zip(("", *value), value, strict=False):
            if before in HEADER_OPTIONS and isinstance(item, str):
                header, _, text = item.partition(":")
                yield header, text.strip()
            else:
                yield from _secrets(item, name, is_secret=is_secret)
    elif isinstance(value, str) and value and (is_secret or SECRET_NAME.search(name)):
        yield name, value


def _redact(line: str, secrets: Iterable[tuple[str, str]]) -> str:
    """Return a line of a JSON, TOML or YAML file with `***` for the values of these secrets."""
    for name, value in sorted(secrets, key=lambda pair: -len(pair[1])):  # a value may be part of a longer one
        forms = {form for ascii in (True, False) for form in (value, json.dumps(value, ensure_ascii=ascii)[1:-1])}
        written = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        beside = rf"""({re.escape(name)}["']?\s*[:=]\s*)(["']?)(?:{written})(?=\2|$)"""
        line = re.sub(beside, rf"\g<1>\g<2>{HIDDEN}", line)
        if len(value) >= MIN_SECRET:
            line = re.sub(written, HIDDEN, line)
    return line


def _without_secrets(entry: Entry) -> str:
    return _redact(json.dumps(entry, ensure_ascii=False), set(_secrets(entry)))


def write_config(path: Path, before: str, after: str) -> Path | None:
    """Replace the file at once and keep the previous one. Return the path of the copy; None if there was no file.

    Raises: UsageError if the file has changed meanwhile or cannot be written.
    """
    target = path.resolve()  # a link stays a link
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode if target.exists() else 0o600
        backup = target.with_name(target.name + BACKUP_SUFFIX) if target.exists() else None
        if _read(target) == before and backup is not None:
            _replace(backup, before, mode)
        # Compared again at the last moment: writing may take a while.
        if not _replace(target, after, mode, before):
            raise UsageError(f"{path} was changed by another program meanwhile; nothing was written, try again")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from error
    return backup


def _replace(path: Path, text: str, mode: int, expected: str | None = None) -> bool:
    """Replace a file at once. With `expected`, only if it has this text; return whether it was replaced."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode & 0o777)
        is_unchanged = expected is None or _read(path) == expected
        if is_unchanged:
            Path(temporary).replace(path)
        return is_unchanged
    finally:
        Path(temporary).unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read().removeprefix("\ufeff")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"cannot read {path}: {reason}", path=str(path)) from None
