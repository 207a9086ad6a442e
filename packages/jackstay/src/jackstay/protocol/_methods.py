"""Every method and notification of every revision: its sender, params, result and requirements.

One row per name. What a message does in each state is in the tables of the state machines. Bodies are named, not
imported, because most programs use few of them (see `jackstay.types`).
"""

from enum import Enum

import msgspec

from jackstay.protocol._versions import REVISIONS, VERSIONS, Era

_LAST_HANDSHAKE = max(name for name, row in REVISIONS.items() if row.era is Era.HANDSHAKE)
_STATELESS = min(name for name, row in REVISIONS.items() if row.era is Era.STATELESS)


class Sender(Enum):
    """The side that may send a message."""

    CLIENT = "client"
    SERVER = "server"
    BOTH = "both"


class Method(msgspec.Struct, frozen=True):
    """One method or notification.

    `params` and `result` name bodies in `jackstay.types` (empty: none). `capability` is what the receiver of a request
    or the sender of a notification must have declared, dotted; empty: nothing is required.
    """

    name: str
    params: str
    result: str = ""
    sender: Sender = Sender.CLIENT
    capability: str = ""
    since: str = VERSIONS[0]
    until: str = VERSIONS[-1]
    # Idempotent: `replay="safe"` may send it again after the connection was lost.
    is_safe: bool = False
    # Its complete result carries `ttlMs` and `cacheScope` (2026-07-28 server/utilities/caching).
    is_cacheable: bool = False
    # Its result may be `input_required` (2026-07-28 basic/patterns/mrtr).
    may_require_input: bool = False
    # From this revision on it is sent only inside `inputRequests`, never as a message of its own.
    embedded_since: str = ""
    # The last revision in which a client may send it.
    client_until: str = VERSIONS[-1]
    # The member of params that the `Mcp-Name` header repeats.
    header_name: str = ""
    # For a list: the member of its result with the entries, and the notification that the server sends when it changes.
    entries: str = ""
    changed_by: str = ""
    # A client delivers it even if it is received before the handshake is over (2025-11-25 basic/lifecycle).
    is_early: bool = False

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that define it."""
        return tuple(name for name in VERSIONS if self.since <= name <= self.until)

    @property
    def is_request(self) -> bool:
        """True for methods, which have a result; False for notifications."""
        return bool(self.result)


# By name, in the order of the documentation.
METHODS = {
    row.name: row
    for row in (
        # Opening: the client chooses the era with `initialize` or `server/discover`.
        Method("initialize", "InitializeRequestParams", "InitializeResult", until=_LAST_HANDSHAKE),
        Method("server/discover", "RequestParams", "DiscoverResult", since=_STATELESS, is_safe=True, is_cacheable=True),
        Method("ping", "RequestParams", "EmptyResult", sender=Sender.BOTH, until=_LAST_HANDSHAKE),
        Method("notifications/initialized", "NotificationParams", until=_LAST_HANDSHAKE),
        # Tools.
        Method("tools/list", "PaginatedRequestParams", "ListToolsResult", capability="tools", is_safe=True,
               is_cacheable=True, entries="tools", changed_by="notifications/tools/list_changed"),
        Method("tools/call", "CallToolRequestParams", "CallToolResult", capability="tools", may_require_input=True,
               header_name="name"),
        # Resources.
        Method("resources/list", "PaginatedRequestParams", "ListResourcesResult", capability="resources", is_safe=True,
               is_cacheable=True, entries="resources", changed_by="notifications/resources/list_changed"),
        Method("resources/templates/list", "PaginatedRequestParams", "ListResourceTemplatesResult",
               capability="resources", is_safe=True, is_cacheable=True, entries="resourceTemplates",
               changed_by="notifications/resources/list_changed"),
        Method("resources/read", "ReadResourceRequestParams", "ReadResourceResult", capability="resources",
               is_safe=True, is_cacheable=True, may_require_input=True, header_name="uri"),
        Method("resources/subscribe", "SubscribeRequestParams", "EmptyResult", capability="resources.subscribe",
               until=_LAST_HANDSHAKE),
        Method("resources/unsubscribe", "UnsubscribeRequestParams", "EmptyResult", capability="resources.subscribe",
               until=_LAST_HANDSHAKE),
        Method("notifications/resources/updated", "ResourceUpdatedNotificationParams", sender=Sender.SERVER,
               capability="resources.subscribe"),
        # Prompts.
        Method("prompts/list", "PaginatedRequestParams", "ListPromptsResult", capability="prompts", is_safe=True,
               is_cacheable=True, entries="prompts", changed_by="notifications/prompts/list_changed"),
        Method("prompts/get", "GetPromptRequestParams", "GetPromptResult", capability="prompts", is_safe=True,
               may_require_input=True, header_name="name"),
        # Completion and logging.
        Method("completion/complete", "CompleteRequestParams", "CompleteResult", capability="completions",
               is_safe=True),
        Method("logging/setLevel", "SetLevelRequestParams", "EmptyResult", capability="logging", until=_LAST_HANDSHAKE),
        Method("notifications/message", "LoggingMessageNotificationParams", sender=Sender.SERVER,
               capability="logging", is_early=True),
        # Subscriptions of the stateless era.
        Method("subscriptions/listen", "SubscriptionsListenRequestParams", "SubscriptionsListenResult",
               since=_STATELESS),
        Method("notifications/subscriptions/acknowledged", "SubscriptionsAcknowledgedNotificationParams",
               sender=Sender.SERVER, since=_STATELESS),
        # Requests from a server to its client; inside `inputRequests` in the stateless era.
        Method("sampling/createMessage", "CreateMessageRequestParams", "CreateMessageResult", sender=Sender.SERVER,
               capability="sampling", embedded_since=_STATELESS),
        Method("roots/list", "RequestParams", "ListRootsResult", sender=Sender.SERVER, capability="roots",
               embedded_since=_STATELESS, is_safe=True),
        Method("elicitation/create", "ElicitRequestParams", "ElicitResult", sender=Sender.SERVER,
               capability="elicitation", since="2025-06-18", embedded_since=_STATELESS),
        Method("notifications/roots/list_changed", "NotificationParams",
               capability="roots.listChanged", until=_LAST_HANDSHAKE),
        Method("notifications/elicitation/complete", "ElicitationCompleteNotificationParams", sender=Sender.SERVER,
               since="2025-11-25", until="2025-11-25"),
        # Experimental tasks of 2025-11-25; the later extension of the same name has other messages.
        Method("tasks/get", "GetTaskRequestParams", "GetTaskResult", sender=Sender.BOTH, capability="tasks",
               since="2025-11-25", until="2025-11-25", is_safe=True),
        Method("tasks/result", "GetTaskPayloadRequestParams", "GetTaskPayloadResult", sender=Sender.BOTH,
               capability="tasks", since="2025-11-25", until="2025-11-25"),
        Method("tasks/list", "PaginatedRequestParams", "ListTasksResult", sender=Sender.BOTH, capability="tasks.list",
               since="2025-11-25", until="2025-11-25", is_safe=True),
        Method("tasks/cancel", "CancelTaskRequestParams", "CancelTaskResult", sender=Sender.BOTH,
               capability="tasks.cancel", since="2025-11-25", until="2025-11-25"),
        Method("notifications/tasks/status", "TaskStatusNotificationParams", sender=Sender.BOTH, capability="tasks",
               since="2025-11-25", until="2025-11-25"),
        # About other messages.
        Method("notifications/cancelled", "CancelledNotificationParams", sender=Sender.BOTH),
        Method("notifications/progress", "ProgressNotificationParams", sender=Sender.BOTH,
               client_until=_LAST_HANDSHAKE),
    )
}  # fmt: skip

# The lists of a server, by method.
LISTS = {row.name: row for row in METHODS.values() if row.changed_by}


class ListChange(Method, frozen=True):
    """A notification of a changed list: the capability of the list, and the member of the filter of subscriptions."""

    list_capability: str = ""
    flag: str = ""


# The notifications of changed lists, by method.
LIST_CHANGES = {
    row.changed_by: ListChange(row.changed_by, "NotificationParams", sender=Sender.SERVER, is_early=True,
                               capability=f"{row.capability}.listChanged", list_capability=row.capability,
                               flag=f"{row.capability}ListChanged")
    for row in LISTS.values()
}  # fmt: skip
METHODS |= LIST_CHANGES


def is_known(method: str, version: str, sender: Sender) -> bool:
    """Return True if `sender` may send `method` as a message of its own in revision `version`."""
    row = METHODS.get(method)
    if row is None or not row.since <= version <= row.until:
        return False
    if row.embedded_since and version >= row.embedded_since:
        return False
    if sender is Sender.CLIENT and version > row.client_until:
        return False
    return row.sender is sender or row.sender is Sender.BOTH
