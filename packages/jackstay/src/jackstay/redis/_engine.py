"""The connection to Redis: one pipeline for everything that a turn of the loop sends, time limits, and a breaker.

No command waits for Redis longer than `timeout` seconds. After one that did, and after `MAX_FAILURES` other failures in
a row, commands fail at once, so a request with several commands waits only once. One is tried every `RETRY_INTERVAL`
seconds until Redis responds again.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

from jackstay.errors import TransportError, UsageError
from jackstay.extras import install_command

try:
    from hiredis import pack_command
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, NoPermissionError, ReadOnlyError, RedisError, ResponseError
    from redis.exceptions import TimeoutError as RedisTimeoutError
except ModuleNotFoundError as missing:
    raise UsageError(f"RedisBackend needs the extra `redis`: {install_command('redis')}") from missing

logger = logging.getLogger("jackstay.redis")

# One command: its name and arguments.
Command: TypeAlias = tuple[str | bytes | int, ...]

MAX_CONNECTIONS = 8

MAX_FAILURES = 3
RETRY_INTERVAL = 1.0

# What redis-py raises if Redis cannot be reached or does not respond.
UNREACHABLE = (RedisError, OSError, asyncio.TimeoutError)

# Credentials that cannot work. redis-py has no class for a wrong password.
REFUSED = (AuthenticationError, NoPermissionError)


def make_client(url: str, *, socket_timeout: float, connect_timeout: float, retries: int) -> Redis:
    """Return a client for a URL. Parameters of the URL take precedence. Raises: UsageError for a malformed URL."""
    try:
        client: Redis = Redis.from_url(
            url,
            socket_timeout=socket_timeout,
            socket_connect_timeout=connect_timeout,
            retry=Retry(NoBackoff(), retries),
            max_connections=MAX_CONNECTIONS,
            protocol=2,
        )
    except ValueError:  # its text may contain the URL, which may contain a password
        raise UsageError(
            "malformed Redis URL; use redis://HOST:PORT/DATABASE, rediss:// for TLS, or unix://PATH", path="url"
        ) from None
    return client


class Engine:
    """Runs commands on the loop that opened it; other loops may call it too."""

    def __init__(self, client: Any, timeout: float, *, is_own: bool = False) -> None:
        self.client = client
        self.timeout = timeout
        # A client of our own has one connection for all pipelines. Its pipelines and its pool would take as long as
        # everything else of a round trip; of other clients, such as that of a cluster, only the pipelines are known.
        self._is_own = is_own
        self._connection: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[tuple[Sequence[Command], asyncio.Future[list[Any]]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._error = ""
        # When Redis responded again after it was down.
        self._recovered_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Engine, {self._error or 'ok'}>"

    @property
    def problem(self) -> str:
        """Why commands fail at once, or an empty string."""
        return self._error if self._failures >= MAX_FAILURES else ""

    def recovered_within(self, seconds: float) -> bool:
        """Return whether Redis was down less than so many seconds ago."""
        assert self._loop is not None
        return bool(self.problem) or self._loop.time() - self._recovered_at < seconds

    def open(self) -> None:
        """Run commands on the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Wait for running commands."""
        if self._sender is not None:
            await asyncio.wait({self._sender})
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.disconnect()
            await self.client.connection_pool.release(connection)
        self._loop = None

    async def run(self, *command: str | bytes | int) -> Any:
        """Run a command and return its reply. Raises: TransportError if Redis does not respond, or refuses it."""
        return (await self.run_all([command]))[0]

    async def run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in order and return their replies. Raises: TransportError as `run()`."""
        replies = await self.try_all(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise TransportError(f"Redis refused a command: {reply}")
        return replies

    async def try_all(self, commands: Sequence[Command]) -> list[Any]:
        """As `run_all()`, but return the errors of single commands among the replies."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is None:
                raise TransportError("the Redis backend is not open")
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.try_all(commands), self._loop))
        if self._failures >= MAX_FAILURES:
            if loop.time() < self._retry_at:
                raise TransportError(self._error)
            self._retry_at = loop.time() + RETRY_INTERVAL
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((commands, future))
        if self._sender is None:
            self._sender = loop.create_task(self._send())
        timer = loop.call_later(self.timeout, self._expire, future)  # takes less time than `asyncio.timeout`
        try:
            return await future
        finally:
            timer.cancel()

    def _expire(self, future: "asyncio.Future[list[Any]]") -> None:
        if not future.done():
            self._failed(RedisTimeoutError(f"no response in {self.timeout:g} s"))
            future.set_exception(TransportError(self._error))

    async def _send(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                # A command whose caller has stopped waiting is not sent. An empty pipeline would look like a response.
                if rows := [row for row in waiting if not row[1].done()]:
                    await self._send_pipeline(rows)
        finally:
            self._sender = None

    async def _send_pipeline(self, rows: list[tuple[Sequence[Command], "asyncio.Future[list[Any]]"]]) -> None:
        every = [command for commands, _ in rows for command in commands]
        try:
            replies = await (self._exchange(every) if self._is_own else self._run_pipeline(every))
            if any(isinstance(reply, ReadOnlyError) for reply in replies):
                await self._disconnect()  # it has become a replica: the next connection may find the new primary
        except Exception as error:  # noqa: BLE001  # whatever a driver raises, nobody may wait for a reply that was lost
            self._failed(error)
            for _, future in rows:
                if not future.done():
                    future.set_exception(TransportError(self._error))
            return
        self.succeeded()
        begin = 0
        for commands, future in rows:
            if not future.done():
                future.set_result(replies[begin : begin + len(commands)])
            begin += len(commands)

    async def _run_pipeline(self, commands: list[Command]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        # The client may have no time limit of its own, and a connection may be half open.
        async with asyncio.timeout(2 * self.timeout):
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies

    async def _exchange(self, commands: list[Command]) -> list[Any]:
        """Run commands as a pipeline of redis-py does."""
        if not commands:
            return []
        if self._connection is None:
            async with asyncio.timeout(2 * self.timeout):
                self._connection = await self.client.connection_pool.get_connection()
        connection = self._connection
        packed = [pack_command(command) for command in commands]  # type: ignore[arg-type]  # its stub: a tuple of one
        replies: list[Any] = await connection.retry.call_with_retry(
            lambda: self._send_and_read(connection, commands, packed), lambda _: connection.disconnect()
        )
        return replies

    async def _send_and_read(self, connection: Any, commands: list[Command], packed: list[bytes]) -> list[Any]:
        loop = asyncio.get_running_loop()
        if not connection.is_connected:
            async with asyncio.timeout(2 * self.timeout):
                await connection.connect()
        # redis-py would start a task to send and a timer for each reply, which take longer than everything else.
        own_limit, connection.socket_timeout = connection.socket_timeout, None
        limit = min(own_limit or self.timeout, self.timeout)
        try:
            async with asyncio.timeout(limit) as timer:
                await connection.send_packed_command(packed)
                replies = [await self._read(connection, commands[0][0])]
                for command in commands[1:]:
                    timer.reschedule(loop.time() + limit)
                    replies.append(await self._read(connection, command[0]))
        except TimeoutError:
            raise RedisTimeoutError(f"no response in {limit:g} s") from None
        finally:
            connection.socket_timeout = own_limit
        return replies

    async def _read(self, connection: Any, name: str | bytes | int) -> Any:
        try:
            reply = await connection.read_response()
        except ResponseError as error:
            return error
        callback = self.client.response_callbacks.get(name)
        return reply if callback is None else callback(reply)

    async def _disconnect(self) -> None:
        pool = getattr(self.client, "connection_pool", None)
        if pool is not None:
            await pool.disconnect()

    def _failed(self, error: BaseException) -> None:
        was_working = self._failures < MAX_FAILURES
        is_timeout = isinstance(error, TimeoutError | RedisTimeoutError)
        self._failures += MAX_FAILURES if is_timeout else 1
        self._error = f"Redis is unavailable: {str(error) or type(error).__name__}"
        self._retry_at = asyncio.get_running_loop().time() + RETRY_INTERVAL
        if was_working and self._failures >= MAX_FAILURES:
            logger.error("%s; serving without it", self._error)

    def succeeded(self) -> None:
        """Note that Redis has responded."""
        if self._failures >= MAX_FAILURES:
            self._recovered_at = asyncio.get_running_loop().time()
            logger.warning("Redis responds again")
        self._failures = 0
        self._error = ""


__all__ = ["REFUSED", "UNREACHABLE", "Command", "Engine", "make_client"]
