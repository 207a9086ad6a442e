"""The settings of a client connection. Times are in seconds."""

from typing import Annotated, Any, Final, Literal

import msgspec

from jackstay._version import __version__
from jackstay.errors import Json, UsageError
from jackstay.protocol._settings import MIN_SECONDS, Setting, SettingsBase, settings_of, versions_setting
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.wire import MAX_FRAME_BYTES
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


def _is_info(value: object) -> bool:
    has_names = isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("name", "version"))
    return has_names and _is_json_object(value)


def _is_json_object(value: object) -> bool:
    """Return True if it can be encoded as a JSON object; otherwise every connection would fail later."""
    try:
        return encode_json(value).startswith(b"{")
    except UsageError:
        return False


def _are_extensions(value: object) -> bool:
    return isinstance(value, tuple) and all(hasattr(row, "identifier") for row in value)


def _is_task_log(value: object) -> bool:
    return all(hasattr(value, name) for name in ("began", "ended", "pending"))


class Settings(SettingsBase, frozen=True, kw_only=True):
    """The settings of one client connection, validated on construction.

    Raises: UsageError, with the setting and its valid range.
    """

    # fmt: off
    name: Annotated[str, Setting("The name of the connection in logs and telemetry. Default: from the target.")] = ""
    client_info: Annotated[dict[str, Json], Setting("The client's name and version, sent to the server.",
        is_valid=_is_info, expected='an object with "name" and "version"')] = msgspec.field(
            default_factory=lambda: {"name": "jackstay", "version": __version__})
    capabilities: Annotated[dict[str, Json] | None, Setting("The client capabilities sent to the server. Default:"
        " derived from the registered handlers.", is_valid=_is_json_object, expected="an object")] = None
    versions: Annotated[tuple[str, ...], versions_setting("The protocol revisions that may be used. If all are of one"
        " era, the other is not probed.")] = VERSIONS
    open_timeout: Annotated[float | None, Setting("How long `connect()` and `open()` wait until the connection is"
        " ready.", low=MIN_SECONDS)] = 60.0
    init_timeout: Annotated[float, Setting("The limit from starting the transport until ready. 30 s for npx, uvx, bunx"
        " and pipx, which download on their first run. After a start that timed out it is doubled for the next one, up"
        " to `open_timeout`, until the connection is ready.", low=MIN_SECONDS)] = 10.0
    probe_timeout: Annotated[float | None, Setting("How long to wait on stdio for the response to `server/discover`"
        " before `initialize` is sent too. Default: 3 s, or a third of `init_timeout` if that is less.",
        low=MIN_SECONDS)] = None
    request_timeout: Annotated[float | None, Setting("The soft deadline of a call, for all of its requests together;"
        " progress extends it. None: no limit.", low=MIN_SECONDS)] = 30.0
    max_timeout: Annotated[float | None, Setting("The hard deadline of a call, for all of its requests together;"
        " progress does not extend it. A larger `timeout` of a call raises it. None: a server that keeps reporting"
        " progress can block the caller forever.", low=MIN_SECONDS)] = 300.0
    backoff_min: Annotated[float, Setting("The shortest delay before reconnecting.", low=MIN_SECONDS)] = 1.0
    backoff_max: Annotated[float, Setting("The longest delay before reconnecting.", low=MIN_SECONDS)] = 30.0
    backoff_jitter: Annotated[float, Setting("The random variation of the delay, as a fraction of it.", low=0,
        high=1)] = 0.2
    max_attempts: Annotated[int | None, Setting("How many failures before the first ready close the connection for"
        " good. None: 5, but 1 if there is evidently no MCP server (connection refused, unknown host, another service"
        " at the URL, a program that prints other output), and 2 if connections are closed without a response or a"
        " program exits twice in the same way without a message. A number applies to every kind of failure; use it for"
        " a server that starts later than its client. After the first ready there is no limit.", low=1)] = None
    wait_for_ready: Annotated[bool, Setting("Whether a call that is made while there is no connection waits for it,"
        " until its deadline. False: it fails with StateError.")] = True
    max_pending: Annotated[int, Setting("The maximum number of open calls.", low=1)] = 1024
    max_queued: Annotated[int, Setting("The maximum number of calls that wait for the connection.", low=0)] = 256
    busy: Annotated[Literal["retry", "wait"], Setting("What a call does when the transport is busy or too many calls"
        " are open: retry a few times and fail, or wait until its deadline.")] = "retry"
    retry_attempts: Annotated[int, Setting("The number of attempts to send a frame, including the first.", low=1)] = 3
    retry_delay: Annotated[float, Setting("The delay between two attempts.", low=0)] = 0.010
    retry_jitter: Annotated[float, Setting("The random variation of that delay, as a fraction of it.", low=0,
        high=1)] = 0.5
    session_attempts: Annotated[int, Setting("HTTP: how many times a request is sent, including the first, if the"
        " server refuses it because it does not know the session (404). Then, or at its deadline, the call fails with"
        " SessionLostError.", low=1)] = 20
    replay: Annotated[Literal["never", "safe"], Setting("Whether calls that were lost with a connection are sent"
        " again, once: never, or only those that are safe to repeat (list, get, read, complete, discover, and tools"
        " with a read-only or idempotent hint).")] = "never"
    max_frame_bytes: Annotated[int, Setting("The maximum size of a message, in both directions.", low=1024,
        high=2**31 - 1)] = MAX_FRAME_BYTES
    max_list_bytes: Annotated[int, Setting("The maximum size of a list, all pages together.", low=1024)] = 67_108_864
    max_list_entries: Annotated[int, Setting("The maximum number of entries of a list, all pages together.",
        low=1)] = 100_000
    check_output_timeout: Annotated[float, Setting("The time limit for validating a tool's output or its schema."
        " Validation blocks the event loop; an output whose validation takes longer counts as invalid.",
        low=MIN_SECONDS)] = 1.0
    tombstone_sweep: Annotated[float, Setting("The interval at which the ids of abandoned calls are removed.",
        low=MIN_SECONDS)] = 60.0
    keepalive: Annotated[float | None, Setting("Send a keepalive request after so long without receiving anything;"
        " after two without a response the connection counts as lost.", low=MIN_SECONDS)] = None
    hang_timeout: Annotated[float | None, Setting("If a call times out and nothing was received since it was sent: how"
        " long the server may take to respond to a health check (`ping` or `server/discover`) before it is restarted."
        " None: no health checks.", low=MIN_SECONDS)] = 5.0
    close_step: Annotated[float, Setting("The time limit of each step of closing: end of input, SIGTERM, SIGKILL.",
        low=MIN_SECONDS)] = 2.0
    stderr: Annotated[Literal["log", "inherit"], Setting("Where the stderr of a child process goes; pass a file or a"
        " callable to `stdio()` instead.")] = "log"
    extensions: Annotated[tuple[Any, ...], Setting("Extensions of MCP that the client declares.",
        is_valid=_are_extensions, expected="a tuple of `Extension` objects")] = ()
    task_log: Annotated[Any | None, Setting("Where the client keeps the ids of its tasks, so that a later process finds"
        " their outcome: a `FileTaskLog` or another `TaskLog`.", is_valid=_is_task_log, expected="a `TaskLog`")] = None
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
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
        return cls.from_keywords("connect()", options)

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


# By name, in the order of the documentation.
SETTINGS: Final = settings_of(Settings)

# Where a person waits for a start and sees it: longer than the defaults, so that a server that starts slowly is used in
# its newest revision instead of that of `initialize`.
INTERACTIVE_PROBE_TIMEOUT: Final = 10.0
INTERACTIVE_INIT_TIMEOUT: Final = 20.0


def interactive_timeouts(init_timeout: float | None) -> dict[str, Any]:
    """Return the timeouts of a start for commands and the inspector. `init_timeout`: what the target or user needs."""
    return {
        "probe_timeout": INTERACTIVE_PROBE_TIMEOUT,
        "init_timeout": max(INTERACTIVE_INIT_TIMEOUT, init_timeout or 0.0),
    }
