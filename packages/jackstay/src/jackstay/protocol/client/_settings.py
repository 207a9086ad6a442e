"""The settings of a client connection: names and defaults in `Settings`, meanings and ranges in `SETTINGS`.

A row of `SETTINGS` provides the check, the documentation (docs/settings.md) and, where a command has one, the flag.
`ClientKeywords` repeats the names for type checkers. Times are in seconds.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

import msgspec

from jackstay._version import __version__
from jackstay.errors import Json, UnexpectedOptionError, UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.types import encode_json

# Constants that are deliberately not configurable.
STABLE_AFTER = 10.0  # after so long in `ready`, the count of failures is reset
SESSION_LOSS_WINDOW = 10.0  # if a new session is lost within it, the next one is delayed
MAX_ATTEMPTS = 5  # transient failures before the first ready, if `max_attempts` is None
# The fraction of `init_timeout` that a program which prints other output has until its first MCP message.
NON_MCP_OUTPUT_SHARE = 0.15
MAX_INVALID_FRAMES = 20  # in a row
MAX_TOMBSTONES = 4096
MAX_HANDLERS = 64  # concurrent requests from the server
MAX_NEGOTIATION_STEPS = 3
KEEPALIVE_MISSES = 2
TOMBSTONE_SLACK = 5.0  # for jitter and scheduling


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one client connection, validated on construction.

    Raises: UsageError, with the setting and its valid range.
    """

    name: str = ""
    client_info: dict[str, Json] = msgspec.field(default_factory=lambda: {"name": "jackstay", "version": __version__})
    capabilities: dict[str, Json] | None = None
    versions: tuple[str, ...] = VERSIONS
    open_timeout: float | None = 60.0
    init_timeout: float = 10.0
    probe_timeout: float | None = None
    request_timeout: float | None = 30.0
    max_timeout: float | None = 300.0
    backoff_min: float = 1.0
    backoff_max: float = 30.0
    backoff_jitter: float = 0.2
    max_attempts: int | None = None
    wait_for_ready: bool = True
    max_pending: int = 1024
    max_queued: int = 256
    busy: str = "retry"
    retry_attempts: int = 3
    retry_delay: float = 0.010
    retry_jitter: float = 0.5
    session_attempts: int = 20
    replay: str = "never"
    max_frame_bytes: int = 16_777_216
    max_list_bytes: int = 67_108_864
    max_list_entries: int = 100_000
    check_output_timeout: float = 1.0
    tombstone_sweep: float = 60.0
    keepalive: float | None = None
    hang_timeout: float | None = 5.0
    close_step: float = 2.0
    stderr: str = "log"

    def __post_init__(self) -> None:
        for row in SETTINGS.values():
            row.check(getattr(self, row.name))
        if self.backoff_min > self.backoff_max:
            raise UsageError(
                f"backoff_min must not be greater than backoff_max: {self.backoff_min!r} > {self.backoff_max!r}",
                path="backoff_min",
            )

    @classmethod
    def of(cls, **options: Any) -> "Settings":
        """Build the settings from the keyword arguments of `connect()`.

        Raises: UnexpectedOptionError for an unknown name, UsageError for a bad value.
        """
        for name in options:
            if name not in cls.__struct_fields__:
                raise UnexpectedOptionError("connect()", name, cls.__struct_fields__)
        return cls(**options)

    def deadlines(
        self,
        timeout: float | msgspec.UnsetType | None = msgspec.UNSET,
        max_timeout: float | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> tuple[float | None, float | None]:
        """Return the soft and the hard deadline of a call in seconds, given what the call itself specifies."""
        soft = self.request_timeout if timeout is msgspec.UNSET else timeout
        if max_timeout is not msgspec.UNSET:
            return soft, max_timeout
        hard = self.max_timeout
        return soft, hard if hard is None or soft is None else max(hard, soft)

    def start_timeout(self, slow_starts: int) -> float:
        """Return the timeout of the next start, doubled for each earlier one that timed out, up to `open_timeout`."""
        longest = 16 * self.init_timeout if self.open_timeout is None else self.open_timeout
        return min(self.init_timeout * (1 << min(slow_starts, 16)), max(longest, self.init_timeout))

    @property
    def probe_wait(self) -> float:
        """How long to wait for the response to the probe before `initialize` is sent too."""
        return min(3.0, self.init_timeout / 3) if self.probe_timeout is None else self.probe_timeout

    @property
    def tombstone_ttl(self) -> float:
        """How long an abandoned id is kept: the longest time until a late response (75 s by default)."""
        return (self.request_timeout or 0.0) + self.init_timeout + self.backoff_max + TOMBSTONE_SLACK

    @property
    def close_timeout(self) -> float:
        """The limit for closing: three steps (end of input, SIGTERM, SIGKILL) and one to spare."""
        return 4 * self.close_step


class FleetKeywords(TypedDict, total=False):
    """The settings as keywords of a fleet, for editors and type checkers. It has no `name`: each server has its own."""

    client_info: dict[str, Json]
    capabilities: dict[str, Json] | None
    versions: tuple[str, ...]
    open_timeout: float | None
    init_timeout: float
    probe_timeout: float | None
    request_timeout: float | None
    max_timeout: float | None
    backoff_min: float
    backoff_max: float
    backoff_jitter: float
    max_attempts: int | None
    wait_for_ready: bool
    max_pending: int
    max_queued: int
    busy: Literal["retry", "wait"]
    retry_attempts: int
    retry_delay: float
    retry_jitter: float
    session_attempts: int
    replay: Literal["never", "safe"]
    max_frame_bytes: int
    max_list_bytes: int
    max_list_entries: int
    check_output_timeout: float
    tombstone_sweep: float
    keepalive: float | None
    hang_timeout: float | None
    close_step: float
    stderr: Literal["log", "inherit"]


class ClientKeywords(FleetKeywords, total=False):
    """The settings as keywords of `connect()`."""

    name: str


class Setting(msgspec.Struct, frozen=True):
    """One setting: its meaning and its valid values. `low` and `high` are inclusive.

    `is_valid` replaces the check by the other fields; `expected` then describes the valid values.
    """

    name: str
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_integer: bool = False
    is_flag: bool = False
    is_valid: Callable[[object], bool] | None = None
    expected: str = ""

    @property
    def range(self) -> str:
        """A description of the valid values."""
        if self.expected:
            text = self.expected
        elif self.choices:
            text = " or ".join(f'"{choice}"' for choice in self.choices)
        elif self.is_flag:
            text = "True or False"
        elif self.low is not None:
            text = f"{'an int' if self.is_integer else 'a number'} from {_plain(self.low)}"
            text += "" if self.high is None else f" to {_plain(self.high)}"
        else:
            text = "a str"
        return f"{text}, or None" if self.is_optional else text

    def check(self, value: object) -> None:
        """Check a value. Raises: UsageError if it is not valid."""
        if not self._allows(value):
            raise UsageError(f"{self.name} must be {self.range}, not {value!r}", path=self.name)

    def _allows(self, value: object) -> bool:
        if value is None:
            return self.is_optional
        if self.is_valid is not None:
            return self.is_valid(value)
        if self.choices:
            return value in self.choices
        if self.is_flag:
            return isinstance(value, bool)
        if self.low is None:
            return isinstance(value, str)
        # NaN compares false with everything, so it is refused below. A bool is an int in Python, but not meant here.
        if isinstance(value, bool) or not isinstance(value, int if self.is_integer else (int, float)):
            return False
        return self.low <= value <= (1e15 if self.high is None else self.high)


def _plain(number: float) -> str:
    return f"{number:.0f}" if number == int(number) else f"{number:g}"


def _are_versions(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(name in VERSIONS for name in value)


def _is_info(value: object) -> bool:
    has_names = isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("name", "version"))
    return has_names and _is_json_object(value)


def _is_json_object(value: object) -> bool:
    """Return True if it can be encoded as a JSON object; otherwise every connection would fail later."""
    try:
        return encode_json(value).startswith(b"{")
    except UsageError:
        return False


_MIN_SECONDS = 0.001  # event loops have no finer resolution

# By name, in the order of the documentation.
SETTINGS = {
    row.name: row
    for row in (
        Setting("name", "The name of the connection in logs and telemetry. Default: from the target."),
        Setting("client_info", "The client's name and version, sent to the server.", is_valid=_is_info,
                expected='an object with "name" and "version"'),
        Setting("capabilities", "The client capabilities sent to the server. Default: derived from the registered "
                "handlers.", is_optional=True, is_valid=_is_json_object, expected="an object"),
        Setting("versions", "The protocol revisions that may be used. If all are of one era, the other is not probed.",
                is_valid=_are_versions, expected="a non-empty tuple of " + ", ".join(VERSIONS)),
        Setting("open_timeout", "How long `connect()` and `open()` wait until the connection is ready.",
                low=_MIN_SECONDS, is_optional=True),
        Setting("init_timeout", "The limit from starting the transport until ready. 30 s for npx, uvx, bunx and pipx, "
                "which download on their first run. After a start that timed out it is doubled for the next one, up to "
                "`open_timeout`, until the connection is ready.", low=_MIN_SECONDS),
        Setting("probe_timeout", "How long to wait on stdio for the response to `server/discover` before `initialize` "
                "is sent too. Default: 3 s, or a third of `init_timeout` if that is less.", low=_MIN_SECONDS,
                is_optional=True),
        Setting("request_timeout", "The soft deadline of a call, for all of its requests together; progress extends "
                "it. None: no limit.", low=_MIN_SECONDS, is_optional=True),
        Setting("max_timeout", "The hard deadline of a call, for all of its requests together; progress does not "
                "extend it. A larger `timeout` of a call raises it. None: a server that keeps reporting progress can "
                "block the caller forever.", low=_MIN_SECONDS, is_optional=True),
        Setting("backoff_min", "The shortest delay before reconnecting.", low=_MIN_SECONDS),
        Setting("backoff_max", "The longest delay before reconnecting.", low=_MIN_SECONDS),
        Setting("backoff_jitter", "The random variation of the delay, as a fraction of it.", low=0, high=1),
        Setting("max_attempts", "How many failures before the first ready close the connection for good. None: 5, but "
                "1 if there is evidently no MCP server (connection refused, unknown host, another service at the URL, "
                "a program that prints other output). A number applies to every kind of failure; use it for a server "
                "that starts later than its client. After the first ready there is no limit.",
                low=1, is_integer=True, is_optional=True),
        Setting("wait_for_ready", "Whether a call that is made while there is no connection waits for it, until its "
                "deadline. False: it fails with StateError.", is_flag=True),
        Setting("max_pending", "The maximum number of open calls.", low=1, is_integer=True),
        Setting("max_queued", "The maximum number of calls that wait for the connection.", low=0, is_integer=True),
        Setting("busy", "What a call does when the transport is busy or too many calls are open: retry a few times and "
                "fail, or wait until its deadline.", choices=("retry", "wait")),
        Setting("retry_attempts", "The number of attempts to send a frame, including the first.", low=1,
                is_integer=True),
        Setting("retry_delay", "The delay between two attempts.", low=0),
        Setting("retry_jitter", "The random variation of that delay, as a fraction of it.", low=0, high=1),
        Setting("session_attempts", "HTTP: how many times a request is sent, including the first, if the server "
                "refuses it because it does not know the session (404). Then, or at its deadline, the call fails with "
                "SessionLostError.", low=1, is_integer=True),
        Setting("replay", "Whether calls that were lost with a connection are sent again, once: never, or only those "
                "that are safe to repeat (list, get, read, complete, discover, and tools with a read-only or "
                "idempotent hint).", choices=("never", "safe")),
        Setting("max_frame_bytes", "The maximum size of a message, in both directions.", low=1024, high=2**31 - 1,
                is_integer=True),
        Setting("max_list_bytes", "The maximum size of a list, all pages together.", low=1024, is_integer=True),
        Setting("max_list_entries", "The maximum number of entries of a list, all pages together.", low=1,
                is_integer=True),
        Setting("check_output_timeout", "The time limit for validating a tool's output or its schema. Validation "
                "blocks the event loop; an output whose validation takes longer counts as invalid.", low=_MIN_SECONDS),
        Setting("tombstone_sweep", "The interval at which the ids of abandoned calls are removed.", low=_MIN_SECONDS),
        Setting("keepalive", "Send a keepalive request after so long without receiving anything; after two without a "
                "response the connection counts as lost.", low=_MIN_SECONDS, is_optional=True),
        Setting("hang_timeout", "If a call times out and nothing was received since it was sent: how long the server "
                "may take to respond to a health check (`ping` or `server/discover`) before it is restarted. None: no "
                "health checks.", low=_MIN_SECONDS, is_optional=True),
        Setting("close_step", "The time limit of each step of closing: end of input, SIGTERM, SIGKILL.",
                low=_MIN_SECONDS),
        Setting("stderr", "Where the stderr of a child process goes; pass a file or a callable to `stdio()` instead.",
                choices=("log", "inherit")),
    )
}  # fmt: skip
