"""Every setting as a row, and how a `procontext.yaml` and the environment become one `Config`.

A row is a field of a Struct: its name, type, bounds, default and help. The same row makes the YAML key, the environment
variable (`PROCONTEXT__SECTION__KEY`), the check at start and the line in the documentation. A file that the user names, or else
the one in the platform's configuration directory, is trusted. A file in the working directory is not: only rows marked with
`LOCAL` are accepted from it (`local_config`). The environment wins over both. An unknown or wrong setting is an error that names it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from jackstay.errors import Json, UsageError
from procontext.config_files import find_files, read_yaml
from procontext.errors import ConfigError
from procontext.local_config import refusals, refuse
from procontext.models import LIBRARY_ID_PATTERN, Library, Packages

PREFIX = "PROCONTEXT__"
# Marks a row that is also accepted from a file in the working directory. docs/design/threat-model-procontext.md has the reasons.
LOCAL: Final = {"local": True}

Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of rows."""


class SourcePackages(Section, frozen=True):
    """The package names of a private source."""

    pypi: tuple[Text, ...] = ()
    npm: tuple[Text, ...] = ()


class Source(Section, frozen=True):
    """A library of your own: an address, or a folder of Markdown or HTML."""

    # `$` would take a line end behind it.
    id: Annotated[str, Meta(pattern=LIBRARY_ID_PATTERN[:-1] + r"\Z", max_length=200)]
    name: str = ""
    description: str = ""
    languages: tuple[Text, ...] = ()
    packages: SourcePackages = SourcePackages()
    aliases: tuple[Text, ...] = ()
    docs_url: str | None = None
    llms_txt_url: str | None = None
    path: str | None = None
    headers: dict[str, str] = {}

    def library(self) -> Library:
        """Return this source as a row of the registry."""
        return Library(
            id=self.id,
            name=self.name or self.id,
            description=self.description,
            languages=self.languages,
            packages=Packages(self.packages.pypi, self.packages.npm),
            aliases=self.aliases,
            docs_url=self.docs_url,
            llms_txt_url=self.llms_txt_url,
            path=self.path,
            headers=tuple(self.headers.items()),
        )


class LocalSource(Source, frozen=True, kw_only=True):
    """A source from a file in the working directory. `file` is that file; it is no key of YAML."""

    file: str


class ServerSettings(Section, frozen=True):
    """How the server is reached."""

    transport: Annotated[
        Literal["stdio", "http"], Meta(description="`stdio` for a client that starts it, `http` for a port.")
    ] = "stdio"
    host: Annotated[str, Meta(min_length=1, description="The address to listen on (HTTP).")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on (HTTP); 0 takes a free one.")
    ] = 8080
    allowed_hosts: Annotated[
        tuple[Text, ...],
        Meta(
            description="Names that it answers as beside `localhost` and `server.host` (HTTP), like"
            " `docs.corp.example` or `docs.corp.example:8080`; `*` is any."
        ),
    ] = ()
    auth_enabled: Annotated[
        bool, Meta(description="Whether HTTP requests need `Authorization: Bearer KEY`.")
    ] = False
    auth_key: Annotated[
        str, Meta(description="The key; if empty, one is made at start and printed to stderr.")
    ] = ""
    metrics: Annotated[bool, Meta(description="Whether `/metrics` has numbers for Prometheus (HTTP).")] = (
        False
    )


class RegistrySettings(Section, frozen=True):
    """Which libraries are known."""

    path: Annotated[
        str | None, Meta(description="A registry file to use instead of the one in the package.")
    ] = None
    url: Annotated[
        str | None,
        Meta(
            description="Where the newest registry is described: a JSON file with `version`, `url` and `sha256`."
        ),
    ] = None
    refresh_hours: Annotated[
        float, Meta(ge=1, le=8760, description="How often a running server looks for a newer one.")
    ] = 24.0


class CacheSettings(Section, frozen=True):
    """What is kept on disk."""

    ttl_hours: Annotated[
        float,
        Meta(
            gt=0,
            le=87600,
            description="How long a page is fresh; older ones are served and refreshed.",
            extra=LOCAL,
        ),
    ] = 24.0
    dir: Annotated[
        str | None, Meta(description="Where the cache lies; null is the platform's cache directory.")
    ] = None
    max_bytes: Annotated[
        int,
        Meta(
            ge=67108864,
            le=1099511627776,
            description="How large the cache file may grow; then what was read longest ago goes.",
        ),
    ] = 1073741824


class FetcherSettings(Section, frozen=True):
    """How documentation is fetched."""

    allowed_private_hosts: Annotated[
        tuple[Text, ...],
        Meta(description="`host:port` of intranet hosts that may have private addresses."),
    ] = ()
    max_bytes: Annotated[
        int, Meta(ge=65536, le=1073741824, description="The largest document that is read, unpacked.")
    ] = 10485760
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=600, description="How long one request may take in all.")
    ] = 30.0
    ca_file: Annotated[
        str | None, Meta(description="Certificates of a corporate CA (PEM), added to the system's.")
    ] = None
    proxy: Annotated[str | None, Meta(description="An HTTP proxy, like `http://proxy.corp:3128`.")] = None
    offline: Annotated[bool, Meta(description="Serve what is cached, and fetch nothing.")] = False


class OutputSettings(Section, frozen=True):
    """What a tool answers with."""

    max_chars: Annotated[
        int, Meta(ge=8000, le=10000000, description="The most characters of one answer.", extra=LOCAL)
    ] = 40000


class LoggingSettings(Section, frozen=True):
    """What is said on stderr."""

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
    """The settings of this process.

    Raises: ConfigError, naming the setting, what is wrong with it, and the file or variable it stands in.
    """
    environ = os.environ if environment is None else environment
    files = find_files(named, working=working, user=user, environment=environ)
    file = files.trusted
    given: dict[str, Json] = {} if file is None else read_yaml(file)
    where = "" if file is None else str(file)
    config = _convert(
        given, where
    )  # before the environment is laid over it, so that each is blamed for its own
    named_by_environment = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX)}
    if named_by_environment:
        for name, value in sorted(named_by_environment.items()):
            _lay(given, name, value)
        config = _convert(given, "the environment")
    config = _settle(config, Path.cwd() if file is None else file.parent, environ, where)
    if files.local is None:
        return config
    overridden = {name.upper() for name in named_by_environment}
    return _with_local(config, files.local, overridden)


def _with_local(config: Config, file: Path, overridden: set[str]) -> Config:
    """The settings with those of the file in the working directory over them, except where the environment set one.

    Raises: ConfigError, which lists every key that is not accepted from there.
    """
    given = read_yaml(file)
    local = _convert(given, str(file))
    allowed = {row.key for row in settings() if row.is_local}
    found = [*refusals(given, file.parent, allowed)]
    if found:
        raise refuse(found, file)
    # No environment: the check above refuses `${...}`, and this would raise for one that it missed.
    local = _settle(local, file.parent, {}, str(file))
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
        raise ConfigError(name, f"is no setting; there are {', '.join(known)}", where)
    try:
        return msgspec.convert(given, Config)
    except OverflowError as error:
        raise ConfigError("settings", "a number is too large", where) from error
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        name = path.strip("`.")
        raise ConfigError(
            name or "settings", _choices(name) or said.replace("`", "").lower(), where
        ) from error


def _choices(name: str) -> str:
    """What a setting may be, where that is a list of words: a decoder names only the wrong one."""
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
    """Names that are no settings, with the names there are: msgspec would say only the first half."""
    fields = {field.name: field for field in msgspec.structs.fields(section)}
    for name, value in given.items():
        if name not in fields:
            yield ".".join((*path, str(name))), list(fields)
        elif name == "sources" and isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, dict):
                    yield from _unknown(Source, one, (*path, f"sources[{index}]"))
        elif isinstance(value, dict) and _is_section(fields[name].type):
            yield from _unknown(fields[name].type, value, (*path, name))


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)


def _lay(given: dict[str, Json], variable: str, value: str) -> None:
    """Put one variable of the environment over the settings."""
    steps = variable[len(PREFIX) :].lower().split("__")
    section: type[msgspec.Struct] = Config
    here: Any = given
    for index, step in enumerate(steps):
        fields = {field.name: field for field in msgspec.structs.fields(section)}
        if step not in fields:
            raise ConfigError(variable, f"is no setting; there are {', '.join(fields)}", "the environment")
        hint = fields[step].type
        is_last = index == len(steps) - 1
        if _is_section(hint) and not is_last:
            section, here = hint, here.setdefault(step, {})
        elif not _is_section(hint) and is_last:
            here[step] = _read_value(variable, hint, value)
        else:
            problem = "names a section, not a setting" if is_last else f"goes deeper than {step}, a setting"
            raise ConfigError(variable, problem, "the environment")


def _read_value(variable: str, hint: Any, value: str) -> Json:
    """A text of the environment as what the row wants; lists are JSON."""
    bare = _without_annotations(hint)
    options = [part for part in get_args(bare) if part is not NoneType]
    if get_origin(bare) is Union or NoneType in get_args(bare):
        if value in ("", "null"):
            return None
        bare = _without_annotations(options[0])
    try:
        if get_origin(bare) is Literal:
            return value  # one of few words, which is checked with all the rest
        if get_origin(bare) in (tuple, dict):
            listed: Json = msgspec.json.decode(value)
            return listed
        # Without the bounds: those are checked with all the others, once.
        found: Json = msgspec.convert(value, bare, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        wanted = (
            "a list as JSON" if get_origin(bare) in (tuple, dict) else str(error).replace("`", "").lower()
        )
        raise ConfigError(variable, f"{value!r} cannot be used: {wanted}", "the environment") from error
    return found


def _without_annotations(hint: Any) -> Any:
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


# --- what types cannot say --------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_URL = re.compile(r"https?://[^\s/?#@]+([/?#]\S*)?")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%\w+)?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _settle(config: Config, base: Path, environ: Mapping[str, str], where: str) -> Config:
    """Paths made absolute from where the file lies, `${VARIABLES}` filled in, addresses checked."""
    for name, url in (("registry.url", config.registry.url), ("fetcher.proxy", config.fetcher.proxy)):
        if url is not None and _URL.fullmatch(re.sub(r"(?<=://)[^/@]*@", "", url)) is None:
            raise ConfigError(name, f"must be an http or https address, not {_shown(url)}", where)
    for host in config.fetcher.allowed_private_hosts:
        port = host.rpartition(":")[2]
        if not host.rpartition(":")[0] or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                "fetcher.allowed_private_hosts", f"must be like docs.corp.example:443, not {host!r}", where
            )
    if _HOST.fullmatch(config.server.host) is None:
        raise ConfigError(
            "server.host",
            f"must be an address or a name, not {config.server.host!r}; server.port is the port",
            where,
        )
    if config.server.allowed_hosts:
        _check_hosts(config.server.allowed_hosts, where)
    seen: set[str] = set()
    sources: list[Source] = []
    for index, source in enumerate(config.sources):
        if source.id in seen:
            raise ConfigError(f"sources[{index}].id", f"{source.id!r} is there twice", where)
        seen.add(source.id)
        sources.append(_settle_source(source, f"sources[{index}]", base, environ, where))
    registry = msgspec.structs.replace(
        config.registry, path=_absolute("registry.path", config.registry.path, base, where)
    )
    cache = msgspec.structs.replace(config.cache, dir=_absolute("cache.dir", config.cache.dir, base, where))
    fetcher = msgspec.structs.replace(
        config.fetcher, ca_file=_absolute("fetcher.ca_file", config.fetcher.ca_file, base, where)
    )
    for name, file in (("registry.path", registry.path), ("fetcher.ca_file", fetcher.ca_file)):
        if file is not None and not os.path.isfile(file):
            raise ConfigError(name, f"there is no file {file}", where)
    if fetcher.ca_file is not None:
        _check_certificates(fetcher.ca_file, where)
    return msgspec.structs.replace(
        config, sources=tuple(sources), registry=registry, cache=cache, fetcher=fetcher
    )


def _shown(url: str) -> str:
    """An address for an error message; one that may hold a password is not shown."""
    return "one with a user name or password" if "@" in url else repr(url)


def _check_certificates(file: str, where: str) -> None:
    """What cannot be read would otherwise fail with the first page, and blame its host."""
    import ssl  # noqa: PLC0415  # only who has certificates of their own needs it

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(
            "fetcher.ca_file", f"{file} holds no certificates in PEM: {error.strerror or error}", where
        ) from error


def _check_hosts(hosts: tuple[str, ...], where: str) -> None:
    """By the rule of who compares them with what a request says."""
    from jackstay.protocol.http import Access  # noqa: PLC0415  # only who names hosts needs it

    for host in hosts:
        try:
            Access.allow((host,))
        except UsageError as error:
            raise ConfigError(
                "server.allowed_hosts", f"must be like docs.corp.example, not {host!r}", where
            ) from error


def _settle_source(source: Source, name: str, base: Path, environ: Mapping[str, str], where: str) -> Source:
    if source.docs_url is None and source.llms_txt_url is None and source.path is None:
        raise ConfigError(name, "needs a docs_url, an llms_txt_url or a path", where)
    for key, url in (("docs_url", source.docs_url), ("llms_txt_url", source.llms_txt_url)):
        if url is not None and _URL.fullmatch(url) is None:
            raise ConfigError(
                f"{name}.{key}",
                f"must be an http or https address without a password, not {_shown(url)}",
                where,
            )
    path = _absolute(f"{name}.path", source.path, base, where)
    if path is not None and not os.path.isdir(path):
        raise ConfigError(f"{name}.path", f"there is no folder {path}", where)
    headers: dict[str, str] = {}
    for header, value in source.headers.items():
        place = f"{name}.headers.{header}"
        filled = _fill(place, value, environ, where)
        if _HEADER.fullmatch(header) is None or not filled.isprintable() or not filled.isascii():
            raise ConfigError(place, "is no header: a name, and one line of printable ASCII", where)
        headers[header] = filled
    return msgspec.structs.replace(source, path=path, headers=headers)


def _fill(name: str, value: str, environ: Mapping[str, str], where: str) -> str:
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
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a loop of links, a `~name` that nobody has
        raise ConfigError(name, f"is no path that can be used: {error}", where) from error


# --- telling ----------------------------------------------------------------------------------------------------------


class Setting(msgspec.Struct, frozen=True):
    """A row as the documentation shows it."""

    key: str
    variable: str
    default: str
    help: str
    is_local: bool


def settings() -> Iterator[Setting]:
    """Every row, in the order in which they stand here."""
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
    return Setting(
        ".".join(steps), PREFIX + "__".join(steps).upper(), default, meta.description or "", is_local
    )


__all__ = [
    "LOCAL",
    "PREFIX",
    "CacheSettings",
    "Config",
    "FetcherSettings",
    "LocalSource",
    "LoggingSettings",
    "OutputSettings",
    "RegistrySettings",
    "Section",
    "ServerSettings",
    "Setting",
    "Source",
    "SourcePackages",
    "load",
    "settings",
]
