"""The contents of an MCP bundle: its files, `manifest.json`, and the `server.json` of the MCP registry.

The facts come from `pyproject.toml`. A bundle has type `uv`: the host installs the dependencies with uv, so that one
bundle serves all platforms. Specifications: https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md (0.4)
and https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json.
"""

import fnmatch
import hashlib
import importlib.metadata
import io
import json
import os
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from jackstay.errors import UsageError

# What is not part of a server: version control, environments, caches and results of builds.
LEFT_OUT: Final = (
    *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", ".idea", ".vscode", ".DS_Store"),
    *("__pycache__", "*.pyc", ".*_cache", ".coverage", "*.egg-info", "dist", "build", "*.mcpb", "/server.json"),
)
# What may be a secret. It is never packed, and reported.
SECRETS: Final = (
    *(".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_ed25519*"),
    *(".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials*.json", "secrets.*", ".aws", ".ssh", ".gnupg"),
)
_NO_SECRETS: Final = ("*.example", "*.sample", "*.template")
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
IGNORE_FILE: Final = ".mcpbignore"
ENTRIES: Final = ("server.py", "main.py", "src/server.py", "src/main.py")
# The first time that a ZIP file can have: the same files give the same bundle.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_MAX_DESCRIPTION: Final = 100


class Files(NamedTuple):
    """The files of a bundle by their names in it, and the names of those that may be secrets."""

    packed: dict[str, Path]
    secrets: list[str]


def read_project(folder: Path) -> Mapping[str, Any]:
    """Return the table `project` of a project. Raises: UsageError if something that a bundle needs is missing."""
    path = folder / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project")
    except FileNotFoundError:
        raise UsageError(f"there is no {path}; a bundle needs one with name, version and dependencies") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        raise UsageError(f"{path} has no project.name")
    if "version" not in project:
        try:
            project["version"] = importlib.metadata.version(project["name"])
        except importlib.metadata.PackageNotFoundError:
            raise UsageError(f"{path} has no project.version, and the project is not installed here") from None
    if not project.get("description"):
        raise UsageError(f"{path} has no project.description")
    if not _author(project):
        raise UsageError(f'{path} has no author; add authors = [{{name = "..."}}] to [project]')
    return project


def find_entry(folder: Path, entry: str | None) -> str:
    """Return the path of the program in the bundle. Raises: UsageError if there is none."""
    if entry is None:
        entry = next((name for name in ENTRIES if (folder / name).is_file()), None)
        if entry is None:
            raise UsageError(f"no {' or '.join(ENTRIES)} in {folder}; use --entry FILE", path="--entry")
    found = (folder / entry).resolve()
    if not found.is_file() or not found.is_relative_to(folder.resolve()):
        raise UsageError(f"{entry!r} is not a file in {folder}", path="--entry")
    return found.relative_to(folder.resolve()).as_posix()


def find_files(folder: Path) -> Files:
    """Return the files of a folder, sorted by name. Raises: UsageError for a private key, and a link to the outside."""
    if (folder / "manifest.json").exists():
        raise UsageError(f"{folder} has a manifest.json, but this command writes one; remove it")
    try:
        lines = (folder / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    ignored = (*LEFT_OUT, IGNORE_FILE, *(line.strip().rstrip("/") for line in lines if line.strip() and line[0] != "#"))
    packed: dict[str, Path] = {}
    secrets: list[str] = []
    root = folder.resolve()
    for name, path in _walk(folder, "", ignored, secrets):
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{name} is a link to a file outside of {folder}; list it in {IGNORE_FILE}")
        if _PRIVATE_KEY.search(path.read_bytes()):
            raise UsageError(f"{name} has a private key; remove it, or list it in {IGNORE_FILE}")
        packed[name] = path
    return Files(packed, secrets)


def _walk(folder: Path, prefix: str, ignored: Sequence[str], secrets: list[str]) -> Iterator[tuple[str, Path]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = f"{prefix}{entry.name}"
            if _matches(name, ignored):
                continue
            if _matches(name, SECRETS) and not _matches(name, _NO_SECRETS):
                secrets.append(name)
            elif entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{name}/", ignored, secrets)
            elif entry.is_file():
                yield name, Path(entry.path)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name or its last part matches a pattern, in lower case. `/name` is at the top."""
    names = (f"/{name}".lower(), name.lower(), name.lower().rpartition("/")[2])
    return any(fnmatch.fnmatchcase(part, pattern.lower()) for pattern in patterns for part in names)


def manifest(project: Mapping[str, Any], entry: str, variables: Sequence[str], *, has_icon: bool) -> dict[str, Any]:
    """Return `manifest.json`. The host prompts for the variables."""
    urls = _urls(project)
    command = {
        "command": "uv",
        "args": ["run", "--directory", "${__dirname}", entry],
        **({"env": {name: f"${{user_config.{name.lower()}}}" for name in variables}} if variables else {}),
    }
    members = {
        "manifest_version": "0.4",
        "name": project["name"],
        "version": str(project["version"]),
        "description": project["description"],
        "author": _author(project),
        "repository": {"type": "git", "url": urls["repository"]} if "repository" in urls else None,
        **{name: urls.get(name) for name in ("homepage", "documentation", "support")},
        "icon": "icon.png" if has_icon else None,
        "server": {"type": "uv", "entry_point": entry, "mcp_config": command},
        "tools_generated": True,
        "keywords": project.get("keywords"),
        "license": _license(project),
        "compatibility": _compatibility(project),
        "user_config": {
            name.lower(): {
                "type": "string",
                "title": name,
                "description": f"The environment variable {name} of the server",
                "sensitive": True,
                "required": True,
            }
            for name in variables
        },
    }
    return {name: value for name, value in members.items() if value}


def registry_entry(
    project: Mapping[str, Any],
    bundle: bytes,
    file_name: str,
    *,
    variables: Sequence[str],
    name: str | None,
    url: str | None,
) -> dict[str, Any] | str:
    """Return `server.json`, or the reason why there is none.

    The defaults of `name` and `url` are for a repository at GitHub: its namespace, and a file of the release
    `vVERSION`.
    """
    urls = _urls(project)
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", urls.get("repository", ""))
    if found is not None:
        name = name or f"io.github.{found[1]}/{project['name']}"
        url = url or f"https://github.com/{found[1]}/{found[2]}/releases/download/v{project['version']}/{file_name}"
    if name is None or url is None:
        return "project.urls has no Repository at GitHub; use --registry-name and --url"
    if not re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]{1,100}", name):
        raise UsageError(f"expected a name such as io.github.you/weather, got {name!r}", path="--registry-name")
    if not re.fullmatch(r"https://[^\s]+", url):
        raise UsageError(f"expected an https URL, got {url!r}", path="--url")
    description = " ".join(str(project["description"]).split())
    if len(description) > _MAX_DESCRIPTION:
        description = f"{description[: _MAX_DESCRIPTION - 1].rstrip()}…"
    package: dict[str, Any] = {
        "registryType": "mcpb",
        "identifier": url,
        "version": str(project["version"]),
        "fileSha256": hashlib.sha256(bundle).hexdigest(),
        "transport": {"type": "stdio"},
    }
    if variables:
        package["environmentVariables"] = [{"name": key, "isRequired": True, "isSecret": True} for key in variables]
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name,
        "description": description,
        **({"repository": {"url": found[0], "source": "github"}} if found is not None else {}),
        "version": str(project["version"]),
        "packages": [package],
    }


def make_bundle(files: Mapping[str, Path], manifest_json: Mapping[str, Any]) -> bytes:
    """Return the ZIP file. The same files give the same bytes: times and permissions are constant."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        contents = {"manifest.json": to_json(manifest_json).encode(), **dict.fromkeys(sorted(files))}
        for name, content in contents.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name].read_bytes() if content is None else content)
    return buffer.getvalue()


def to_json(value: Mapping[str, Any]) -> str:
    """Return indented JSON, as it is written to a file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _author(project: Mapping[str, Any]) -> dict[str, str]:
    """Return the first author with a name; empty if there is none."""
    for author in project.get("authors") or ():
        if isinstance(author, dict) and author.get("name"):
            return {key: author[key] for key in ("name", "email") if author.get(key)}
    return {}


def _license(project: Mapping[str, Any]) -> str | None:
    found = project.get("license")
    return found if isinstance(found, str) else None


def _compatibility(project: Mapping[str, Any]) -> dict[str, Any]:
    python = project.get("requires-python")
    return {"runtimes": {"python": python}} if isinstance(python, str) else {}


_LABELS: Final = {
    "repository": ("repository", "source", "sourcecode", "github"),
    "homepage": ("homepage",),
    "documentation": ("documentation", "docs"),
    "support": ("issues", "bugtracker", "issuetracker", "tracker", "support"),
}


def _urls(project: Mapping[str, Any]) -> dict[str, str]:
    """Return the URLs of a project by their meaning. Labels are compared as PyPI does."""
    labels = {re.sub(r"[\W_]", "", str(key)).lower(): value for key, value in (project.get("urls") or {}).items()}
    return {
        meaning: labels[label]
        for meaning, names in _LABELS.items()
        for label in reversed(names)
        if isinstance(labels.get(label), str) and labels[label].startswith(("https://", "http://"))
    }
