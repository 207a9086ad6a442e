"""The revision and the client of a connection, and the rules that depend on them.

A connection of the handshake era agrees on a revision with `initialize`. In the stateless era every request names its
revision, and the first one determines that of the connection. Over HTTP the revision is known from the start.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

from jackstay.errors import Json, UsageError
from jackstay.protocol._methods import METHODS, Method, Sender, is_known
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.server._config import ServerConfig
from jackstay.protocol.server._stateless import declares
from jackstay.protocol.server._states import ServerState
from jackstay.protocol.server.events import ClientParams
from jackstay.protocol.wire._jsonrpc import ABSENT, MAX_BATCH_MEMBERS, Absent, Batch, Notification, Request

_read_object: Callable[[bytes], dict[str, Json]] = msgspec.json.Decoder(dict).decode

NO_METHODS: dict[str, Method] = {}

# The first state of a connection: over HTTP the revision is known, and every request may create a connection.
FIRST_STATES: dict[str | None, ServerState] = {
    None: ServerState.FRESH,
    **{
        name: ServerState.STATELESS if revision.era is Era.STATELESS else ServerState.OPERATING
        for name, revision in REVISIONS.items()
    },
}


# Bytes of the parameters of a client that are shared.
MAX_SHARED = 1024


@lru_cache(256)
def _first_equal(client: ClientParams) -> ClientParams:
    return client


def _share(client: ClientParams) -> ClientParams:
    """Return equal parameters of an earlier connection, if there are any: a server has many clients of few programs."""
    return _first_equal(client) if len(client.info) + len(client.capabilities) <= MAX_SHARED else client


class Negotiation:
    """What is known of the client: `version` is None while `fresh`, `client` is None without a handshake.

    Raises: UsageError for a version that the configuration does not include.
    """

    __slots__ = ("client", "config", "version")

    def __init__(self, config: ServerConfig, version: str | None = None, client: ClientParams | None = None) -> None:
        if version is not None and version not in config.supported:
            raise UsageError(
                f"unsupported version {version!r}; supported: {', '.join(config.supported)}", path="version"
            )
        self.config = config
        self.client = None if client is None else _share(client)
        # The text of the shared parameters: each session would keep that of its record.
        self.version = version if self.client is None or self.client.version != version else self.client.version

    def __repr__(self) -> str:
        return f"<Negotiation {self.version} {self.client}>"

    def initialize(self, client: ClientParams) -> bytes:
        """Agree on a revision and store the client's parameters. Returns the encoded result of `initialize`."""
        version, result = self.respond(client)
        self.client = _share(ClientParams(version, client.info, client.capabilities))
        self.version = self.client.version
        return result

    def respond(self, client: ClientParams) -> tuple[str, bytes]:
        """Return the revision for this client and the encoded result of `initialize`, and store nothing."""
        version = self.config.negotiate(client.version)
        assert version is not None  # the table refuses `initialize` if no revision has a handshake
        return version, self.config.initialize_result(version)

    # --- rules --------------------------------------------------------------------------------------------------------

    @property
    def known_methods(self) -> dict[str, Method]:
        """The requests that the client may send; before the negotiation, those of all revisions."""
        return self.config.known_in_any_version if self.version is None else self.config.known[self.version]

    def served_methods(self, state: ServerState) -> dict[str, Method]:
        """Return the methods that handlers serve in this state; none unless the state serves them all."""
        is_serving = state in (ServerState.STATELESS, ServerState.OPERATING) or (
            state is ServerState.HANDSHAKE and not self.config.options.strict
        )
        return self.config.served[self.version] if is_serving and self.version is not None else NO_METHODS

    def accepts(self, method: str) -> bool:
        """Return True if the client's revision has this request to a client and the client declared support for it."""
        if self.client is None or not is_known(method, self.client.version, Sender.SERVER):
            return False
        capability = METHODS[method].capability
        return not capability or declares(_read_object(self.client.capabilities), capability)

    @property
    def unreadable_id(self) -> Absent | None:
        """The id of an error response if the request id could not be read: null, or absent from 2025-11-25 on."""
        version = self.version
        return ABSENT if version is not None and REVISIONS[version].omits_unreadable_id else None

    def batch_problem(self, batch: Batch) -> str:
        """Return why a batch cannot be processed, or an empty string."""
        if self.version is None or not REVISIONS[self.version].has_batches:
            return "this revision has no batches"
        if batch.is_over_limit:
            return f"a batch has at most {MAX_BATCH_MEMBERS} members"
        if not batch.members:
            return "a batch must not be empty"
        if any(isinstance(item, Request | Notification) and item.method == "initialize" for item in batch.members):
            return "`initialize` must not be part of a batch"  # 2025-03-26 basic/lifecycle
        return ""
