"""The options of `serve()`, with defaults and validation. apcore is not imported here, so that `--help` is fast."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypedDict

import msgspec

from jackstay.errors import UnexpectedOptionError

# "streamable-http" is `transport="http"` of jackstay.
TRANSPORTS: Final = ("stdio", "streamable-http", "sse")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
APPROVALS: Final = ("elicit", "allow", "deny")
# The names of apcore-mcp for them.
APPROVAL_ALIASES: Final = {"auto-approve": "allow", "off": "allow", "always-deny": "deny"}
OUTPUT_FORMATS: Final = ("json", "csv", "jsonl")

# Paths that are already used.
TAKEN_PATHS: Final = ("/mcp", "/sse", "/messages", "/health", "/metrics")

# A plain path, without `//` and `..`.
_OWN_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)+")

MAX_NAME: Final = 255

# The options for the executor of apcore, with their defaults.
EXECUTOR_DEFAULTS: Final[dict[str, Any]] = dict.fromkeys(("acl", "middleware", "strategy", "approval_handler"))


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
    redact_output: bool
    acl: Any
    middleware: Sequence[Any] | None
    strategy: Any
    approval_handler: Any
    auth: Any
    require_auth: bool
    exempt_paths: Collection[str]
    hosts: Sequence[str] | None
    cors: Sequence[str]
    allow_execute: bool
    output_format: str | None
    output_formatter: Callable[[Any], str] | None
    trace: bool
    usage_collector: Any
    max_frame_bytes: int | None
    page_size: int | None
    backend: str | None
    otel: bool


class ExportKeywords(TypedDict, total=False):
    """The keywords of `to_openai_tools()` and similar functions."""

    # Append annotations that are not defaults to the descriptions.
    embed_annotations: bool
    # Convert schemas for strict mode and set its flag.
    strict: bool
    tags: Sequence[str] | None
    prefix: str | None


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options.

    Raises: ValueError for an invalid value; TypeError for a wrong type. The message has the option and its valid
    values.
    """

    transport: str = "stdio"
    # Only this machine by default.
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = "apcore-mcp"
    # None: the version of this package.
    version: str | None = None
    # Only modules with all of these tags, and with ids that start with the prefix, are served.
    tags: Sequence[str] | None = None
    prefix: str | None = None
    # None: logging is not configured.
    log_level: str | None = None
    on_startup: Callable[[], object] | None = None
    on_shutdown: Callable[[], object] | None = None
    # Follow changes of the registry while serving.
    dynamic: bool = False
    # Validate arguments before the module runs, and report every invalid field.
    validate_inputs: bool = False
    # A metrics collector of apcore, added to the metrics at /metrics.
    metrics_collector: Any = None
    metrics: bool = False
    explorer: bool = False
    inspector_prefix: str = "/inspector"
    # For a module with `requires_approval`: "elicit" the approval of the user, "allow" or "deny" every call.
    approval: str = "elicit"
    # Fill in the defaults of the schema for missing arguments.
    fill_defaults: bool = True
    # Replace values with `x-sensitive` in the output schema, and keys that apcore treats as secret, in results.
    redact_output: bool = True
    # An ACL, middleware, execution strategy and approval handler of apcore for the executor.
    acl: Any = None
    middleware: Sequence[Any] | None = None
    strategy: Any = None
    approval_handler: Any = None
    # Authentication, allowed hosts and allowed origins for HTTP; see `jackstay.Server.asgi()`.
    auth: Any = None
    # Requests without valid credentials: refused, except at these paths, or with `require_auth=False` anonymous.
    require_auth: bool = True
    exempt_paths: Collection[str] = ()
    hosts: Sequence[str] | None = None
    cors: Sequence[str] = ()
    # Whether the inspector may call tools.
    allow_execute: bool = True
    # The text of results: JSON, CSV, JSON lines, or what a function makes of the output.
    output_format: str | None = None
    output_formatter: Callable[[Any], str] | None = None
    # Add the steps of apcore's pipeline and their durations to the results.
    trace: bool = False
    # A usage collector of apcore, served by the inspector's API.
    usage_collector: Any = None
    # The maximum size of a message, and of a page of tools; None is the default of jackstay.
    max_frame_bytes: int | None = None
    page_size: int | None = None
    # A Redis that servers on several machines share: its URL, or an environment variable that contains it.
    backend: str | None = None
    # A span and a duration of OpenTelemetry for every request.
    otel: bool = False
    # Called with the bridge when it is built; they add what `apcore_mcp.compat` has.
    extensions: tuple[Callable[[Any], None], ...] = ()

    def __post_init__(self) -> None:
        _one_of("transport", self.transport, TRANSPORTS)
        _one_of("approval", self.approval, APPROVALS)
        if self.log_level is not None:
            _one_of("log_level", self.log_level.upper(), LOG_LEVELS)
        check_host_port(self.host, self.port)
        check_name(self.name)
        for switch in _SWITCHES:
            if type(getattr(self, switch)) is not bool:
                raise TypeError(f"{switch} must be bool, not {getattr(self, switch)!r}")
        for name in ("version", "prefix", "backend"):
            text: object = getattr(self, name)
            if text is not None and (not isinstance(text, str) or not text):
                raise ValueError(f"{name} must not be empty")
        if self.tags is not None:
            _check_strings("tags", self.tags)
        if self.hosts is not None:
            _check_strings("hosts", self.hosts)
        _check_strings("cors", self.cors)
        _check_paths(self.exempt_paths)
        if self.output_format is not None:
            _one_of("output_format", self.output_format, OUTPUT_FORMATS)
        if self.output_formatter is not None and not callable(self.output_formatter):
            raise TypeError(f"output_formatter must be callable, not {type(self.output_formatter).__name__}")
        for hook in ("on_startup", "on_shutdown"):
            if getattr(self, hook) is not None and not callable(getattr(self, hook)):
                raise TypeError(f"{hook} must be callable, not {type(getattr(self, hook)).__name__}")
        path: object = self.inspector_prefix
        if not isinstance(path, str) or not path.startswith("/") or len(path) < 2 or path.endswith("/"):
            raise ValueError(f"inspector_prefix must be a path such as '/inspector', not {path!r}")
        if f"/{path.split('/')[1]}" in TAKEN_PATHS or not _OWN_PATH.fullmatch(path):
            raise ValueError(f"inspector_prefix must be a plain, unused path such as '/inspector', not {path!r}")
        collector = self.metrics_collector
        if collector is not None and not callable(getattr(collector, "export_prometheus", None)):
            raise TypeError(
                "metrics_collector must have export_prometheus() like apcore.MetricsCollector,"
                f" not {type(collector).__name__}"
            )

    @property
    def has_metrics(self) -> bool:
        """Whether /metrics is served."""
        return self.metrics or self.metrics_collector is not None


_SWITCHES: Final = tuple(
    name
    for name, default in zip(ServeOptions.__struct_fields__, ServeOptions.__struct_defaults__, strict=True)
    if isinstance(default, bool)
)


def make_options(**given: Any) -> ServeOptions:
    """Return the options of these keywords. Transport and log level are case-insensitive.

    Raises: UnexpectedOptionError (a TypeError) for an unknown keyword; ValueError; TypeError.
    """
    unknown = sorted(given.keys() - set(ServeOptions.__struct_fields__))
    if unknown:
        raise UnexpectedOptionError("serve()", unknown[0], ServeOptions.__struct_fields__)
    for name in ("transport", "log_level"):
        value = given.get(name)
        if isinstance(value, str):
            given[name] = value.lower() if name == "transport" else value.upper()
        elif value is not None or name in given:
            if value is None and name == "log_level":
                continue
            raise ValueError(f"{name} must be a str, not {value!r}")
    approval = given.get("approval")
    if isinstance(approval, str):
        given["approval"] = APPROVAL_ALIASES.get(approval, approval)
    return ServeOptions(**given)


def check_host_port(host: object, port: object) -> None:
    """Check an address to listen on. Raises: ValueError."""
    if not isinstance(host, str) or not host:
        raise ValueError("host must not be empty")
    if type(port) is not int or not 1 <= port <= 65_535:
        raise ValueError(f"port must be an int from 1 to 65535, not {port!r}")


def check_name(name: object) -> None:
    """Check the name of a server. Raises: ValueError."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must not be empty: expected a non-empty str, not {name!r}")
    if len(name) > MAX_NAME:
        raise ValueError(f"name exceeds maximum length: {len(name)} characters; use at most {MAX_NAME} characters")


def _check_strings(name: str, values: object) -> None:
    """Check a list of strings. A single str would be split into its characters."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be list[str], not {values!r}")
    if name == "tags" and "" in values:
        raise ValueError(f"Tag values must not be empty; tags is {values!r}")
    if not all(isinstance(value, str) and value for value in values):
        raise ValueError(f"{name} must contain only non-empty strings, not {values!r}")


def _check_paths(paths: object) -> None:
    if isinstance(paths, str) or not isinstance(paths, Collection):
        raise TypeError(f"exempt_paths must be a collection of paths, not {paths!r}")
    bad = next((path for path in paths if not isinstance(path, str) or not path.startswith("/")), None)
    if bad is not None:
        raise ValueError(f"exempt_paths must contain paths such as '/metrics', not {bad!r}")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Unknown {name.replace('_', ' ')}: {value!r}; {name} must be one of {', '.join(allowed)}")


__all__ = [
    "APPROVALS",
    "APPROVAL_ALIASES",
    "EXECUTOR_DEFAULTS",
    "LOG_LEVELS",
    "MAX_NAME",
    "OUTPUT_FORMATS",
    "TAKEN_PATHS",
    "TRANSPORTS",
    "ExportKeywords",
    "ServeKeywords",
    "ServeOptions",
    "check_host_port",
    "check_name",
    "make_options",
]
