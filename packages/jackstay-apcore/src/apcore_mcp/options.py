"""What can be set for a bridge, as rows with defaults; wrong values are refused before anything is started.

One row is a keyword of `serve()`; the rows with a flag are options of the command, and those with a variable can be set by the
environment, for containers. A keyword wins over a flag's default, a flag over the environment.

Must never know apcore: `--help` is made from these rows, and must not load it. Above: `serving`, the command. Below: nothing.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

if TYPE_CHECKING:
    from jackstay.server.http import AuthLike

# As the seed names them; `http` is what jackstay calls the second.
TRANSPORTS: Final = ("stdio", "streamable-http", "sse")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
APPROVALS: Final = ("ask", "allow")

# Paths at which something else is served.
TAKEN_PATHS: Final = ("/mcp", "/sse", "/messages", "/health", "/metrics")

# A path of our own: plain words only, none of which a browser would read as something else (`//host`, `..`).
_OWN_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)+")

# What a name may have at most.
MAX_NAME: Final = 255


class ServeKeywords(TypedDict, total=False):
    """The keywords of `serve()`; `docs/apcore.md` explains each."""

    transport: str
    host: str
    port: int
    name: str
    version: str | None
    tags: Sequence[str] | None
    prefix: str | None
    log_level: str | None
    on_startup: Callable[[], object] | None
    on_shutdown: Callable[[], object] | None
    dynamic: bool
    validate_inputs: bool
    metrics_collector: Any
    metrics: bool
    explorer: bool
    inspector_prefix: str
    approval: str
    fill_defaults: bool
    auth: "AuthLike | None"
    hosts: Sequence[str] | None
    cors: Sequence[str]


class ExportKeywords(TypedDict, total=False):
    """The keywords of `to_openai_tools()` and its kin."""

    # Tell annotations that are off their defaults at the end of descriptions.
    embed_annotations: bool
    # Schemas as strict mode wants them, and marked so.
    strict: bool
    tags: Sequence[str] | None
    prefix: str | None


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The rows.

    Raises: ValueError, naming the option and what it may be; TypeError for one of a wrong type.
    """

    transport: str = "stdio"
    # Only this machine, unless it is said: a server on every address is a decision.
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = "apcore-mcp"
    # None: the version of this package.
    version: str | None = None
    # Only modules with all of these tags, and whose ids begin so, are listed and can be called.
    tags: Sequence[str] | None = None
    prefix: str | None = None
    # None: logging is left as it is.
    log_level: str | None = None
    on_startup: Callable[[], object] | None = None
    on_shutdown: Callable[[], object] | None = None
    # Follow the registry: modules that come and go while it serves.
    dynamic: bool = False
    # Check arguments before the module is run, naming every wrong field.
    validate_inputs: bool = False
    # A collector of apcore's, shown at /metrics with our own numbers.
    metrics_collector: Any = None
    metrics: bool = False
    explorer: bool = False
    inspector_prefix: str = "/inspector"
    # What happens to a module with `requires_approval`: "ask" the client, or "allow" it.
    approval: str = "ask"
    # Give a module the defaults of its schema for what the client left out.
    fill_defaults: bool = True
    # Who may call over HTTP, as which names the server answers, and which pages may read: see jackstay's `asgi()`.
    auth: Any = None
    hosts: Sequence[str] | None = None
    cors: Sequence[str] = ()

    def __post_init__(self) -> None:
        _one_of("transport", self.transport, TRANSPORTS)
        _one_of("approval", self.approval, APPROVALS)
        if self.log_level is not None:
            _one_of("log_level", self.log_level.upper(), LOG_LEVELS)
        check_host_port(self.host, self.port)
        check_name(self.name)
        for name in ("version", "prefix"):
            text: object = getattr(self, name)
            if text is not None and (not isinstance(text, str) or not text):
                raise ValueError(f"{name} must not be empty")
        if self.tags is not None:
            _check_texts("tags", self.tags)
        if self.hosts is not None:
            _check_texts("hosts", self.hosts)
        _check_texts("cors", self.cors)
        for hook in ("on_startup", "on_shutdown"):
            if getattr(self, hook) is not None and not callable(getattr(self, hook)):
                raise TypeError(f"{hook} must be a function")
        path: object = self.inspector_prefix
        if not isinstance(path, str) or not path.startswith("/") or len(path) < 2 or path.endswith("/"):
            raise ValueError(f"inspector_prefix must be a path like /inspector, not {path!r}")
        if f"/{path.split('/')[1]}" in TAKEN_PATHS or not _OWN_PATH.fullmatch(path):
            raise ValueError(
                f"inspector_prefix must be a plain path of its own, like /inspector, not {path!r}"
            )
        collector = self.metrics_collector
        if collector is not None and not callable(getattr(collector, "export_prometheus", None)):
            kind = type(collector).__name__
            raise TypeError(
                f"metrics_collector must have export_prometheus(), as apcore's MetricsCollector; {kind} has not"
            )

    @property
    def has_metrics(self) -> bool:
        """True if /metrics is served."""
        return self.metrics or self.metrics_collector is not None


def make_options(**given: Any) -> ServeOptions:
    """The options of these keywords. Transport and log level may be in any case.

    Raises: TypeError for a keyword that is none, as a call does; ValueError.
    """
    unknown = sorted(given.keys() - set(ServeOptions.__struct_fields__))
    if unknown:
        known = ", ".join(ServeOptions.__struct_fields__)
        raise TypeError(f"serve() has no option {unknown[0]!r}; its options are {known}")
    for name in ("transport", "log_level"):
        value = given.get(name)
        if isinstance(value, str):
            given[name] = value.lower() if name == "transport" else value.upper()
        elif value is not None or name in given:
            if value is None and name == "log_level":
                continue
            raise ValueError(f"{name} must be a text, not {value!r}")
    return ServeOptions(**given)


def check_host_port(host: object, port: object) -> None:
    """Nothing, if a server can be told to listen there. Raises: ValueError."""
    if not isinstance(host, str) or not host:
        raise ValueError("host must not be empty")
    if type(port) is not int or not 1 <= port <= 65_535:
        raise ValueError(f"port must be a number from 1 to 65535, not {port!r}")


def check_name(name: object) -> None:
    """Nothing, if a server may be called that. Raises: ValueError."""
    if not isinstance(name, str) or not name:
        raise ValueError("name must not be empty")
    if len(name) > MAX_NAME:
        raise ValueError(f"name must have at most {MAX_NAME} characters, not {len(name)}")


def _check_texts(name: str, several: object) -> None:
    """Nothing, if they are several texts. One text alone would be taken apart into its letters."""
    if isinstance(several, str) or not isinstance(several, Sequence):
        raise TypeError(f"{name} must be a list of texts, not {several!r}")
    if not all(isinstance(text, str) and text for text in several):
        raise ValueError(f"{name} must not have an empty one")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


__all__ = [
    "APPROVALS",
    "LOG_LEVELS",
    "MAX_NAME",
    "TAKEN_PATHS",
    "TRANSPORTS",
    "ExportKeywords",
    "ServeKeywords",
    "ServeOptions",
    "check_host_port",
    "check_name",
    "make_options",
]
