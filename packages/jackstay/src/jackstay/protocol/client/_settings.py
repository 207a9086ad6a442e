"""The settings of a client connection: defaults in the Struct, range and meaning in the rows below it.

One row makes the check, the documentation (`docs/settings.md`) and, where a command has one, the flag; the keyword and
the default are the Struct's field, and `ClientKeywords` says them again to type checkers. Times are seconds. A bad value is refused when the settings are built, by name
and range, before anything is started with it.

Above: the client's core and everything that opens a connection. Below: `_versions`.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

import msgspec

from jackstay._version import __version__
from jackstay.errors import Json, UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.types import encode_json

# Settled points of the connection's design that are not meant to be turned.
SETTLED_AFTER = 10.0  # in `ready` for so long, a connection has proven itself: failures are forgotten
SESSION_LOSS_WINDOW = 10.0  # a new session that is lost within it delays the next one
MAX_ATTEMPTS = 5  # failures before the first ready that may pass by themselves, where `max_attempts` is None
# Of `init_timeout`: how long a program that prints anything but MCP may take to its first message.
RUBBISH_SHARE = 0.15
MAX_STRIKES = 20  # bad lines in a row
MAX_TOMBSTONES = 4096
MAX_HANDLERS = 64  # server requests served at a time
MAX_NEGOTIATION_STEPS = 3
KEEPALIVE_MISSES = 2
TOMBSTONE_SLACK = 5.0  # for jitter and scheduling, on top of the three longest waits


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set for one client connection. Build it with keywords; it refuses bad values.

    Raises: UsageError, naming the setting and what it may be.
    """

    name: str = ""
    client_info: dict[str, Json] = msgspec.field(
        default_factory=lambda: {"name": "jackstay", "version": __version__}
    )
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
            raise UsageError("backoff_min must not be above backoff_max", path="backoff_min")

    @classmethod
    def of(cls, **options: Any) -> "Settings":
        """The settings with these changes; as the class itself, but a name that is none is refused by name, too.

        Raises: UsageError.
        """
        unknown = [name for name in options if name not in cls.__struct_fields__]
        if unknown:
            names = ", ".join(cls.__struct_fields__)
            raise UsageError(f"there is no setting {unknown[0]!r}; there are {names}", path=unknown[0])
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
        """Return how long the next start may take, after so many that only ran out of time: double, up to `open_timeout`."""
        longest = 16 * self.init_timeout if self.open_timeout is None else self.open_timeout
        return min(self.init_timeout * (1 << min(slow_starts, 16)), max(longest, self.init_timeout))

    @property
    def probe_wait(self) -> float:
        """How long the probe may stay unanswered before `initialize` is sent too."""
        return min(3.0, self.init_timeout / 3) if self.probe_timeout is None else self.probe_timeout

    @property
    def tombstone_ttl(self) -> float:
        """How long an abandoned id is remembered: the longest way a late answer can take (75 s by default)."""
        return (self.request_timeout or 0.0) + self.init_timeout + self.backoff_max + TOMBSTONE_SLACK

    @property
    def close_timeout(self) -> float:
        """When closing is given up: three steps of the ladder (EOF, SIGTERM, SIGKILL) and one to spare."""
        return 4 * self.close_step


class FleetKeywords(TypedDict, total=False):
    """The settings as keywords of a fleet, for editors and type checkers; each server has a name of its own."""

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
    """One row: what the setting means, and what it may be. `low` and `high` are inclusive."""

    name: str
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_whole: bool = False
    is_flag: bool = False
    holds: Callable[[object], bool] | None = None
    must: str = ""

    @property
    def range(self) -> str:
        """What it may be, in words."""
        if self.must:
            words = self.must
        elif self.choices:
            words = " or ".join(f'"{choice}"' for choice in self.choices)
        elif self.is_flag:
            words = "true or false"
        elif self.low is not None:
            kind = "whole number" if self.is_whole else "number"
            words = f"a {kind} from {_plain(self.low)}"
            words += "" if self.high is None else f" to {_plain(self.high)}"
        else:
            words = "text"
        return f"{words}, or None" if self.is_optional else words

    def check(self, value: object) -> None:
        """Refuse a bad value. Raises: UsageError."""
        if not self._allows(value):
            raise UsageError(f"{self.name} must be {self.range}, not {value!r}", path=self.name)

    def _allows(self, value: object) -> bool:
        if value is None:
            return self.is_optional
        if self.holds is not None:
            return self.holds(value)
        if self.choices:
            return value in self.choices
        if self.is_flag:
            return isinstance(value, bool)
        if self.low is None:
            return isinstance(value, str)
        # NaN compares false with everything, so it falls out here too; bool is an int to Python, not to people.
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else (int, float)):
            return False
        return self.low <= value <= (1e15 if self.high is None else self.high)


def _plain(number: float) -> str:
    return f"{number:.0f}" if number == int(number) else f"{number:g}"


def _are_versions(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(name in VERSIONS for name in value)


def _is_info(value: object) -> bool:
    has_names = isinstance(value, dict) and all(
        isinstance(value.get(key), str) for key in ("name", "version")
    )
    return has_names and _is_json_object(value)


def _is_json_object(value: object) -> bool:
    """True for what can be sent: found out now, because later it would fail every connection."""
    try:
        return encode_json(value).startswith(b"{")
    except UsageError:
        return False


_SECOND = 0.001  # the least time that is worth waiting for: below it, loops turn more slowly than the timer

# By name, in the order of the documentation.
SETTINGS = {
    row.name: row
    for row in (
        Setting("name", "How logs and telemetry call the connection. Default: from the target."),
        Setting("client_info", "What we tell the server of ourselves.", holds=_is_info, must='an object with "name" and "version"'),
        Setting("capabilities", "What we tell the server that we can. Default: derived from the handlers registered.", is_optional=True,
                holds=_is_json_object, must="an object"),
        Setting("versions", "The protocol revisions that may be spoken. Of one era only: the other is not probed.",
                holds=_are_versions, must="a non-empty tuple of " + ", ".join(VERSIONS)),
        Setting("open_timeout", "How long `connect()` and `open()` wait for the first ready.", low=_SECOND, is_optional=True),
        Setting("init_timeout", "From the spawn to ready. 30 s for npx, uvx, bunx and pipx, whose first run downloads. After a start that "
                "only ran out of time it is doubled for the next one, up to `open_timeout`, until the connection is ready.", low=_SECOND),
        Setting("probe_timeout", "How long `server/discover` may stay unanswered on stdio before `initialize` is sent too. "
                "Default: 3 s, or a third of `init_timeout` if that is less.", low=_SECOND, is_optional=True),
        Setting("request_timeout", "The soft deadline of a call, for all of its requests together: progress moves it. "
                "None: a call may wait for ever.", low=_SECOND, is_optional=True),
        Setting("max_timeout", "The hard deadline of a call, for all of its requests together: nothing moves it. A larger "
                "`timeout` of a call raises it. "
                "None: a server that keeps reporting progress holds the caller for ever.", low=_SECOND, is_optional=True),
        Setting("backoff_min", "The least wait before a reconnect.", low=_SECOND),
        Setting("backoff_max", "The longest wait before a reconnect.", low=_SECOND),
        Setting("backoff_jitter", "How far a wait is spread around its base, as a share of it.", low=0, high=1),
        Setting("max_attempts", "Failures before the first ready after which the connection is closed for good. None: 5, but one where "
                "it shows that no MCP server is there (connection refused, unknown host, another service at the URL, a program that prints "
                "something else). A number: so many for each failure, for a server that starts later than its client. After the first "
                "ready there is no limit.", low=1, is_whole=True, is_optional=True),
        Setting("wait_for_ready", "Whether a call made while there is no connection waits for it, within its deadline. False: it fails with StateError.", is_flag=True),
        Setting("max_pending", "Calls open at a time.", low=1, is_whole=True),
        Setting("max_queued", "Calls waiting for ready at a time.", low=0, is_whole=True),
        Setting("busy", "When the transport takes no more, or too many calls are open: retry a few times and fail, or wait "
                "until the call's deadline.", choices=("retry", "wait")),
        Setting("retry_attempts", "Attempts to hand over a frame, the first included.", low=1, is_whole=True),
        Setting("retry_delay", "The wait between two attempts.", low=0),
        Setting("retry_jitter", "How far that wait is spread, as a share of it.", low=0, high=1),
        Setting("session_attempts", "HTTP: how often a request is sent that the server refuses because it does not know the session (404), "
                "the first time included. Then, or at its deadline, the call fails with SessionLostError.", low=1, is_whole=True),
        Setting("replay", "Whether calls lost with a connection are sent again, once: never, or those that are safe to repeat "
                "(list, get, read, complete, discover, and tools hinted read-only or idempotent).", choices=("never", "safe")),
        Setting("max_frame_bytes", "The largest message, in both directions.", low=1024, high=2**31 - 1, is_whole=True),
        Setting("max_list_bytes", "The largest list, all pages together.", low=1024, is_whole=True),
        Setting("max_list_entries", "The most entries of a list, all pages together.", low=1, is_whole=True),
        Setting("check_output_timeout", "How long a check of a tool's output, or of its schema, may take. Everything else on the "
                "event loop waits meanwhile; what takes longer counts as an output that breaks its schema.", low=_SECOND),
        Setting("tombstone_sweep", "How often forgotten calls are swept.", low=_SECOND),
        Setting("keepalive", "After so long without hearing anything, ask the server for a sign of life; two without an answer "
                "mean that it is down.", low=_SECOND, is_optional=True),
        Setting("hang_timeout", "After a call got no answer in time, and nothing else was received since it was sent: how long the server "
                "may take to answer a check (`ping` or `server/discover`) before it is restarted. None: it is not checked.",
                low=_SECOND, is_optional=True),
        Setting("close_step", "How long each step of closing may take: end of input, SIGTERM, SIGKILL.", low=_SECOND),
        Setting("stderr", "Where a child's stderr goes; a file or a callable is given to `stdio()` itself.", choices=("log", "inherit")),
    )
}  # fmt: skip
