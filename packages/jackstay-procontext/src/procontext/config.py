"""The settings: fields of Structs, filled from `procontext.yaml` and the environment.

Each field defines its YAML key, environment variable (`PROCONTEXT__SECTION__KEY`), validation and documentation. From a
file in the working directory, which is not trusted, only fields marked with `LOCAL` are accepted. The environment has
precedence over all files.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from jackstay.errors import Json, UsageError, did_you_mean
from jackstay.types import DECODE_ERRORS
from procontext.config_files import find_files, read_yaml
from procontext.errors import ConfigError
from procontext.local_config import refusals, refuse
from procontext.models import LIBRARY_ID_PATTERN, Library, Packages

PREFIX = "PROCONTEXT__"
# Marks a field that is also accepted from a file in the working directory; see docs/design/threat-model-procontext.md.
LOCAL: Final = {"local": True}

NonEmptyStr: TypeAlias = Annotated[str, Meta(min_length=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings."""


class SourcePackages(Section, frozen=True):
    """The package names of a private source."""

    pypi: tuple[NonEmptyStr, ...] = ()
    npm: tuple[NonEmptyStr, ...] = ()
    crates: tuple[NonEmptyStr, ...] = ()
    go: tuple[NonEmptyStr, ...] = ()
    maven: tuple[NonEmptyStr, ...] = ()
    rubygems: tuple[NonEmptyStr, ...] = ()
    nuget: tuple[NonEmptyStr, ...] = ()


class Source(Section, frozen=True):
    """A library of your own: a URL, or a folder of Markdown or HTML."""

    # `\Z`, because `$` also matches before a final newline.
    id: Annotated[str, Meta(pattern=LIBRARY_ID_PATTERN[:-1] + r"\Z", max_length=200)]
    name: str = ""
    description: str = ""
    languages: tuple[NonEmptyStr, ...] = ()
    packages: SourcePackages = SourcePackages()
    aliases: tuple[NonEmptyStr, ...] = ()
    docs_url: str | None = None
    llms_txt_url: str | None = None
    path: str | None = None
    headers: dict[str, str] = {}

    def library(self) -> Library:
        """Return this source as a library of the registry."""
        return Library(
            id=self.id,
            name=self.name or self.id,
            description=self.description,
            languages=self.languages,
            packages=Packages(**msgspec.structs.asdict(self.packages)),
            aliases=self.aliases,
            docs_url=self.docs_url,
            llms_txt_url=self.llms_txt_url,
            path=self.path,
            headers=tuple(self.headers.items()),
        )


class LocalSource(Source, frozen=True, kw_only=True):
    """A source from a file in the working directory. `file` is that file, not a YAML key."""

    file: str


class ServerSettings(Section, frozen=True):
    """How the server is reached."""

    transport: Annotated[
        Literal["stdio", "http"],
        Meta(description="`stdio` for a client that starts the server, `http` to listen on a port."),
    ] = "stdio"
    host: Annotated[str, Meta(min_length=1, description="The address to listen on (HTTP).")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on (HTTP); 0 is any free port.")] = 8080
    allowed_hosts: Annotated[
        tuple[NonEmptyStr, ...],
        Meta(
            description="Host names to accept besides `localhost` and `server.host` (HTTP), such as"
            " `docs.corp.example` or `docs.corp.example:8080`; `*` accepts any."
        ),
    ] = ()
    auth_enabled: Annotated[bool, Meta(description="Whether HTTP requests need `Authorization: Bearer KEY`.")] = False
    auth_key: Annotated[
        str, Meta(description="The key; if empty, one is generated at start and printed to stderr.")
    ] = ""
    backend: Annotated[
        str | None,
        Meta(description="The URL of a Redis that servers on several machines share, or a variable that contains it."),
    ] = None
    metrics: Annotated[bool, Meta(description="Whether to serve Prometheus metrics at `/metrics` (HTTP).")] = False
    otel: Annotated[
        bool, Meta(description="Whether to record a span and a duration for every request with OpenTelemetry.")
    ] = False


class RegistrySettings(Section, frozen=True):
    """Which libraries are known."""

    path: Annotated[str | None, Meta(description="A registry file to use instead of the bundled one.")] = None
    url: Annotated[
        str | None,
        Meta(description="URL of a JSON file with `version`, `url` and `sha256` of the newest registry."),
    ] = None
    refresh_hours: Annotated[
        float, Meta(ge=1, le=8760, description="How often a running server checks for a newer registry.")
    ] = 24.0


class CacheSettings(Section, frozen=True):
    """The page cache on disk."""

    ttl_hours: Annotated[
        float,
        Meta(
            gt=0,
            le=87600,
            description="How long a page is fresh; an older page is served and refreshed in the background.",
            extra=LOCAL,
        ),
    ] = 24.0
    dir: Annotated[
        str | None, Meta(description="The directory of the cache; null is the platform's cache directory.")
    ] = None
    max_bytes: Annotated[
        int,
        Meta(
            ge=67108864,
            le=1099511627776,
            description="The maximum size of the cache file; beyond it, the least recently used pages are removed.",
        ),
    ] = 1073741824


class FetcherSettings(Section, frozen=True):
    """How documentation is fetched."""

    allowed_private_hosts: Annotated[
        tuple[NonEmptyStr, ...],
        Meta(description="Intranet hosts, as `host:port`, that may have private addresses."),
    ] = ()
    max_bytes: Annotated[
        int, Meta(ge=65536, le=1073741824, description="The maximum size of a document, after decompression.")
    ] = 10485760
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=600, description="The timeout of one request, including redirects.")
    ] = 30.0
    ca_file: Annotated[str | None, Meta(description="Certificates of a corporate CA (PEM), added to the system's.")] = (
        None
    )
    proxy: Annotated[str | None, Meta(description="An HTTP proxy, such as `http://proxy.corp:3128`.")] = None
    offline: Annotated[bool, Meta(description="Serve only from the cache; fetch nothing.")] = False
    background_pages: Annotated[
        int,
        Meta(
            ge=0,
            le=5000,
            description="Pages of a library that are fetched in the background when it is first used, for search.",
        ),
    ] = 400


class PackagesSettings(Section, frozen=True):
    """Packages that are neither in the registry nor installed."""

    lookup: Annotated[
        bool,
        Meta(description="Whether unknown names are sent to the package indexes, to find the package's documentation."),
    ] = False
    private: Annotated[
        tuple[NonEmptyStr, ...],
        Meta(description="Names that are never sent, in lower case, such as `acme-*` or `@acme/*`."),
    ] = ()
    pypi_url: Annotated[str, Meta(description="PyPI, or a mirror with its JSON pages.")] = "https://pypi.org"
    npm_url: Annotated[str, Meta(description="The npm registry, or a mirror.")] = "https://registry.npmjs.org"
    crates_url: Annotated[str, Meta(description="The documentation of Rust crates.")] = "https://docs.rs"
    go_url: Annotated[str, Meta(description="The documentation of Go modules.")] = "https://pkg.go.dev"


class OutputSettings(Section, frozen=True):
    """The results of the tools."""

    max_chars: Annotated[
        int, Meta(ge=8000, le=10000000, description="The maximum number of characters in one result.", extra=LOCAL)
    ] = 40000


class LoggingSettings(Section, frozen=True):
    """The log on stderr."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least severe event that is logged."),
    ] = "info"


class Config(Section, frozen=True):
    """All settings."""

    sources: Annotated[
        tuple[Source, ...],
        Meta(description="Private sources, merged over the registry; see below.", extra=LOCAL),
    ] = ()
    server: ServerSettings = ServerSettings()
    registry: RegistrySettings = RegistrySettings()
    cache: CacheSettings = CacheSettings()
    fetcher: FetcherSettings = FetcherSettings()
    packages: PackagesSettings = PackagesSettings()
    output: OutputSettings = OutputSettings()
    logging: LoggingSettings = LoggingSettings()


# --- reading ----------------------------------------------------------------------------------------------------------


def load(
    named: str | None = None,
    *,
    working: Path | None = None,
    user: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Load the settings of this process.

    Raises: ConfigError with the setting, the problem, and the file or variable that it comes from.
    """
    environ = os.environ if environment is None else environment
    files = find_files(named, working=working, user=user, environment=environ)
    file = files.trusted
    given: dict[str, Json] = {} if file is None else read_yaml(file)
    where = "" if file is None else str(file)
    config = _convert(given, where)  # before the environment is applied, so that an error names the right origin
    named_by_environment = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX)}
    if named_by_environment:
        for name, value in sorted(named_by_environment.items()):
            _apply_variable(given, name, value)
        config = _convert(given, "the environment")
    config = _finalize(config, Path.cwd() if file is None else file.parent, environ, where)
    if files.local is None:
        return config
    overridden = {name.upper() for name in named_by_environment}
    return _with_local(config, files.local, overridden)


def _with_local(config: Config, file: Path, overridden: set[str]) -> Config:
    """Apply the settings of the file in the working directory, except those that the environment overrides.

    Raises: ConfigError that lists every key that is not accepted from there.
    """
    given = read_yaml(file)
    local = _convert(given, str(file))
    allowed = {row.key for row in settings() if row.is_local}
    found = [*refusals(given, file.parent, allowed)]
    if found:
        raise refuse(found, file)
    # No environment: the check above rejects `${...}`, and this would raise for one that it missed.
    local = _finalize(local, file.parent, {}, str(file))
    for section, values in given.items():
        if section == "sources":
            continue
        typed = getattr(local, section)
        kept = {
            key: getattr(typed, key)
            for key in (values if isinstance(values, dict) else ())
            if f"{PREFIX}{section}__{key}".upper() not in overridden
        }
        changed = msgspec.structs.replace(getattr(config, section), **kept)
        config = msgspec.structs.replace(config, **{section: changed})
    if f"{PREFIX}SOURCES" in overridden:
        return config
    sources = tuple(LocalSource(**msgspec.structs.asdict(source), file=str(file)) for source in local.sources)
    return msgspec.structs.replace(config, sources=(*config.sources, *sources))


def _convert(given: Mapping[str, Json], where: str) -> Config:
    unknown = next(_unknown(Config, given, ()), None)
    if unknown is not None:
        name, known = unknown
        raise ConfigError(name, _unknown_setting(name.rpartition(".")[2], known), where)
    section = given.get("logging")
    if isinstance(section, Mapping) and isinstance(level := section.get("level"), str):
        given = {**given, "logging": {**section, "level": level.lower()}}  # many programs write it in capitals
    try:
        return msgspec.convert(given, Config)
    except OverflowError as error:
        raise ConfigError("settings", "a number is too large", where) from error
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        name = path.strip("`.")
        raise ConfigError(name or "settings", _choices(name) or problem.replace("`", "").lower(), where) from error


def _unknown_setting(name: str, known: Collection[str]) -> str:
    return "unknown setting" + (did_you_mean(name, known) or f"; valid settings: {', '.join(known)}")


def _choices(name: str) -> str:
    """Return the valid values of a setting that is an enumeration; msgspec names only the invalid one."""
    hint: Any = Config
    for step in name.split("."):
        hint = next((field.type for field in _fields(hint) if field.name == step), None)
    bare = _without_annotations(hint)
    return f"must be one of {', '.join(get_args(bare))}" if get_origin(bare) is Literal else ""


def _fields(hint: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(hint) if _is_section(hint) else ()


def _unknown(
    section: type[msgspec.Struct], given: Mapping[str, Json], path: tuple[str, ...]
) -> Iterator[tuple[str, list[str]]]:
    """Find unknown names, each with the valid names, which msgspec does not report."""
    fields = {field.name: field for field in msgspec.structs.fields(section)}
    for name, value in given.items():
        if name not in fields:
            yield ".".join((*path, str(name))), list(fields)
        elif name == "sources" and isinstance(value, list):
            for index, source in enumerate(value):
                if isinstance(source, dict):
                    yield from _unknown(Source, source, (*path, f"sources[{index}]"))
        elif isinstance(value, dict) and _is_section(fields[name].type):
            yield from _unknown(fields[name].type, value, (*path, name))


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)


def _apply_variable(given: dict[str, Json], variable: str, value: str) -> None:
    """Apply one environment variable to the settings."""
    steps = variable[len(PREFIX) :].lower().split("__")
    section: type[msgspec.Struct] = Config
    target: Any = given
    for index, step in enumerate(steps):
        fields = {field.name: field for field in msgspec.structs.fields(section)}
        if step not in fields:
            raise ConfigError(variable, _unknown_setting(step, fields), "the environment")
        hint = fields[step].type
        is_last = index == len(steps) - 1
        if _is_section(hint) and not is_last:
            section, target = hint, target.setdefault(step, {})
        elif not _is_section(hint) and is_last:
            target[step] = _parse_value(variable, hint, value)
        else:
            problem = "names a section, not a setting" if is_last else f"{step!r} is a setting, not a section"
            raise ConfigError(variable, problem, "the environment")


def _parse_value(variable: str, hint: Any, value: str) -> Json:
    """Convert the value of an environment variable to the type of the setting; lists are JSON."""
    bare = _without_annotations(hint)
    options = [part for part in get_args(bare) if part is not NoneType]
    if get_origin(bare) is Union or NoneType in get_args(bare):
        if value in ("", "null"):
            return None
        bare = _without_annotations(options[0])
    try:
        if get_origin(bare) is Literal:
            return value  # validated with the rest
        if get_origin(bare) in (tuple, dict):
            items: Json = msgspec.json.decode(value)
            return items
        # Without the bounds, which are validated later with all the others.
        converted: Json = msgspec.convert(value, bare, strict=False)
    except DECODE_ERRORS as error:
        expected = "expected a JSON list" if get_origin(bare) in (tuple, dict) else str(error).replace("`", "").lower()
        raise ConfigError(variable, f"invalid value {value!r}: {expected}", "the environment") from error
    return converted


def _without_annotations(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


# --- checks beyond types ----------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_URL = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%\w+)?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _finalize(config: Config, base: Path, environ: Mapping[str, str], where: str) -> Config:
    """Make paths absolute relative to `base`, expand `${VARIABLES}`, and check URLs and hosts."""
    for name, url in (("registry.url", config.registry.url), ("fetcher.proxy", config.fetcher.proxy)):
        if url is not None and _URL.fullmatch(re.sub(r"(?<=://)[^/@]*@", "", url)) is None:
            raise ConfigError(name, f"must be an http or https URL, not {_redacted(url)}", where)
    for host in config.fetcher.allowed_private_hosts:
        port = host.rpartition(":")[2]
        if not host.rpartition(":")[0] or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                "fetcher.allowed_private_hosts",
                f"must be a host and a port such as 'docs.corp.example:443', not {host!r}",
                where,
            )
    if _HOST.fullmatch(config.server.host) is None:
        raise ConfigError(
            "server.host",
            f"must be an IP address or a host name, not {config.server.host!r}; set the port with server.port",
            where,
        )
    if config.server.allowed_hosts:
        _check_hosts(config.server.allowed_hosts, where)
    seen: set[str] = set()
    sources: list[Source] = []
    for index, source in enumerate(config.sources):
        if source.id in seen:
            raise ConfigError(f"sources[{index}].id", f"duplicate id {source.id!r}", where)
        seen.add(source.id)
        sources.append(_finalize_source(source, f"sources[{index}]", base, environ, where))
    registry = msgspec.structs.replace(
        config.registry, path=_absolute("registry.path", config.registry.path, base, where)
    )
    cache = msgspec.structs.replace(config.cache, dir=_absolute("cache.dir", config.cache.dir, base, where))
    fetcher = msgspec.structs.replace(
        config.fetcher, ca_file=_absolute("fetcher.ca_file", config.fetcher.ca_file, base, where)
    )
    for name, file in (("registry.path", registry.path), ("fetcher.ca_file", fetcher.ca_file)):
        if file is not None and not os.path.isfile(file):
            raise ConfigError(name, f"file not found: {file}", where)
    if fetcher.ca_file is not None:
        _check_certificates(fetcher.ca_file, where)
    return msgspec.structs.replace(config, sources=tuple(sources), registry=registry, cache=cache, fetcher=fetcher)


def _redacted(url: str) -> str:
    """Return a URL for an error message; one that may contain a password is not shown."""
    return "a URL with a user name or password" if "@" in url else repr(url)


def _check_certificates(file: str, where: str) -> None:
    """Check the file at start: otherwise the first page would fail with a misleading error."""
    import ssl  # noqa: PLC0415  # needed only for custom certificates

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(
            "fetcher.ca_file", f"{file} contains no PEM certificates: {error.strerror or error}", where
        ) from error


def _check_hosts(hosts: tuple[str, ...], where: str) -> None:
    """Check host names with the code that compares them with the Host header."""
    from jackstay.protocol.http import Access  # noqa: PLC0415  # needed only if hosts are configured

    for host in hosts:
        try:
            Access.allow((host,))
        except UsageError as error:
            raise ConfigError(
                "server.allowed_hosts", f"must be a host name such as 'docs.corp.example', not {host!r}", where
            ) from error


def _finalize_source(source: Source, name: str, base: Path, environ: Mapping[str, str], where: str) -> Source:
    if source.docs_url is None and source.llms_txt_url is None and source.path is None:
        raise ConfigError(name, "docs_url, llms_txt_url or path is required", where)
    for key, url in (("docs_url", source.docs_url), ("llms_txt_url", source.llms_txt_url)):
        if url is not None and _URL.fullmatch(url) is None:
            raise ConfigError(
                f"{name}.{key}",
                f"must be an http or https URL without a password, not {_redacted(url)}",
                where,
            )
    path = _absolute(f"{name}.path", source.path, base, where)
    if path is not None and not os.path.isdir(path):
        raise ConfigError(f"{name}.path", f"folder not found: {path}", where)
    headers: dict[str, str] = {}
    for header, value in source.headers.items():
        key = f"{name}.headers.{header}"
        expanded = _expand(key, value, environ, where)
        if _HEADER.fullmatch(header) is None or not expanded.isprintable() or not expanded.isascii():
            raise ConfigError(key, "invalid header: it must be a header name and one line of printable ASCII", where)
        headers[header] = expanded
    return msgspec.structs.replace(source, path=path, headers=headers)


def _expand(name: str, value: str, environ: Mapping[str, str], where: str) -> str:
    def look_up(found: re.Match[str]) -> str:
        if found[1] not in environ:
            raise ConfigError(name, f"the environment variable {found[1]} is not set", where)
        return environ[found[1]]

    return _VARIABLE.sub(look_up, value)


def _absolute(name: str, path: str | None, base: Path, where: str) -> str | None:
    if path is None:
        return None
    try:
        return str((base / Path(path).expanduser()).resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a loop of links, an unknown `~user`
        raise ConfigError(name, f"invalid path {path!r}: {error}", where) from error


# --- documentation ----------------------------------------------------------------------------------------------------


class Setting(msgspec.Struct, frozen=True):
    """A setting as the documentation shows it."""

    key: str
    variable: str
    default: str
    help: str
    is_local: bool


def settings() -> Iterator[Setting]:
    """Return every setting in the order of the fields."""
    for section in msgspec.structs.fields(Config):
        if not _is_section(section.type):
            yield _setting((section.name,), section)
            continue
        for field in msgspec.structs.fields(section.type):
            yield _setting((section.name, field.name), field)


def _setting(steps: tuple[str, ...], field: msgspec.structs.FieldInfo) -> Setting:
    meta = next(part for part in get_args(field.type) if isinstance(part, Meta))
    default = msgspec.json.encode(field.default).decode()
    is_local = bool((meta.extra or {}).get("local"))
    return Setting(".".join(steps), PREFIX + "__".join(steps).upper(), default, meta.description or "", is_local)


__all__ = [
    "LOCAL",
    "PREFIX",
    "CacheSettings",
    "Config",
    "FetcherSettings",
    "LocalSource",
    "LoggingSettings",
    "OutputSettings",
    "PackagesSettings",
    "RegistrySettings",
    "Section",
    "ServerSettings",
    "Setting",
    "Source",
    "SourcePackages",
    "load",
    "settings",
]
