"""Notifications of the status of tasks: `subscriptions/listen` with `taskIds` (SEP-2663, "Task Status Notifications").

A client gets the current state of each task that it listens to, and every change of it. Changes by this process are
sent at once, those by other workers when the store is polled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from jackstay.errors import FrameTooLargeError
from jackstay.protocol.server import events as e
from jackstay.server._driver import Driver
from jackstay.server._task_store import TaskRecord
from jackstay.types import META_SUBSCRIPTION_ID, SubscriptionFilter, encode_json

logger = logging.getLogger("jackstay.server")

NOTIFICATION: Final = "notifications/tasks"
# Tasks that one subscription may have; others are not acknowledged.
MAX_TASKS: Final = 1000

# Returns a task of the caller, or None.
Load: TypeAlias = Callable[[str], Awaitable[TaskRecord | None]]
# Returns the encoded members of a task, as `tasks/get` does.
Describe: TypeAlias = Callable[[TaskRecord], bytes]


class _Wanted(msgspec.Struct, rename="camel"):
    task_ids: list[str] | None = None


class _Params(msgspec.Struct):
    notifications: _Wanted


_read_params = msgspec.json.Decoder(_Params).decode


def wanted_tasks(request: e.Serve) -> list[str] | None:
    """Return the tasks that a `subscriptions/listen` is for, or None. Raises: those of `DECODE_ERRORS`."""
    found = _read_params(request.params or b"{}").notifications.task_ids
    return None if found is None else list(dict.fromkeys(found))[:MAX_TASKS]


class TaskListeners:
    """The subscriptions to the tasks of one server."""

    def __init__(self, describe: Describe, poll_interval: float) -> None:
        self._describe = describe
        self._poll_interval = poll_interval
        self._open: dict[_Listener, None] = {}

    def changed(self, id: str) -> None:
        """Notify the listeners of a task that has changed. Thread-safe."""
        for listener in list(self._open):
            if id in listener.sent:
                listener.wake()

    async def listen(
        self,
        connection: Driver,
        request: e.Serve,
        wanted: SubscriptionFilter,
        ids: list[str],
        *,
        load: Load,
        has_resource: Callable[[str], bool],
    ) -> bytes:
        """Acknowledge those tasks that exist, and notify the client of them until it stops listening.

        Returns an empty result: the request stays open.
        """
        known = [id for id in ids if await load(id) is not None]
        listener = _Listener(connection, request, known)

        def close() -> None:
            self._open.pop(listener, None)
            job.cancel()

        job = asyncio.get_running_loop().create_task(self._run(listener, load))
        self._open[listener] = None
        connection.subscriptions.listen(request, wanted, has_resource, task_ids=known, on_close=close)
        return b""

    async def _run(self, listener: "_Listener", load: Load) -> None:
        """Send each state of the tasks once, until all have ended."""
        while True:
            listener.has_changed.clear()
            for id in list(listener.sent):
                try:
                    record = await load(id)
                except Exception as error:  # noqa: BLE001  # of any store; the next poll tries again
                    logger.debug("task %s: loading it for a listener failed: %r", id, error)
                    continue
                if record is not None and not listener.send(id, self._describe(record)):
                    logger.debug("task %s is larger than a frame: its listener has to use tasks/get", id)
                if record is None or record.has_ended:
                    del listener.sent[id]
            if not listener.sent:
                self._open.pop(listener, None)
                return
            try:
                async with asyncio.timeout(self._poll_interval):
                    await listener.has_changed.wait()
            except TimeoutError:
                pass


class _Listener:
    """One subscription: `sent` has the last state of each task that has not ended."""

    def __init__(self, connection: Driver, request: e.Serve, ids: list[str]) -> None:
        self.sent = dict.fromkeys(ids, b"")
        self.has_changed = asyncio.Event()
        self._connection = connection
        self._id = request.id
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.has_changed.set)

    def send(self, id: str, task: bytes) -> bool:
        """Send the state of a task unless it was sent last. Returns False if it is too large."""
        if self.sent[id] == task:
            return True
        self.sent[id] = task
        meta = b'"_meta":{"%b":%b}' % (META_SUBSCRIPTION_ID.encode(), encode_json(self._id))
        try:
            self._connection.notify(NOTIFICATION, b"{%b,%b" % (meta, task[1:]), self._id)
        except FrameTooLargeError:
            return False
        return True
