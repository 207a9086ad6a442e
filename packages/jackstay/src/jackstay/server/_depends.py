"""`Depends`: arguments that functions provide, instead of the client. Loaded by servers that use it."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, TypeAlias, get_type_hints

from jackstay.errors import UsageError
from jackstay.server._context import Context
from jackstay.server._functions import Dependency

logger = logging.getLogger("jackstay.server")

Provider: TypeAlias = Callable[..., Any]

# Makes a value of the server; its generators are entered on the stack.
_Job: TypeAlias = Callable[[AsyncExitStack], Awaitable[Any]]


def Depends(  # noqa: N802  # a marker, named as in FastAPI
    provider: Provider, *, scope: Literal["request", "server"] = "request"
) -> Any:
    """Mark a parameter of a handler whose argument `provider` returns: `repo: Orders = Depends(orders)`.

    The provider is called once for a request, or once for the life of the server with `scope="server"`. It may be
    async, and may take a `Context` and further dependencies. A generator yields the value; the rest of it runs after
    the handler, or when the server shuts down. A provider that is not async runs on the event loop and must not block.

    Raises: UsageError for a provider that is not callable, or an unknown scope.
    """
    if not callable(provider):
        raise UsageError(f"Depends() expected a function, got {provider!r}", path="provider")
    if scope not in ("request", "server"):
        raise UsageError(f"scope must be 'request' or 'server', not {scope!r}", path="scope")
    return Dependency(provider, scope)


class _Plan:
    """How to call one provider: which parameters are dependencies, and which gets the context."""

    __slots__ = ("context", "enter", "is_async", "parameters", "provider", "scope")

    def __init__(self, dependency: Dependency, outer: tuple[Provider, ...] = ()) -> None:
        provider = self.provider = dependency.provider
        self.scope = dependency.scope
        name = _name(provider)
        if provider in outer:
            path = " -> ".join(_name(other) for other in (*outer[outer.index(provider) :], provider))
            raise UsageError(f"dependency cycle: {path}; remove one of these dependencies", path=name)
        self.parameters: dict[str, _Plan] = {}
        self.context: str | None = None
        hints = _hints(provider)
        for parameter in inspect.signature(provider).parameters.values():
            self._add(parameter, hints.get(parameter.name), (*outer, provider))
        plain = provider if inspect.isroutine(provider) or isinstance(provider, type) else type(provider).__call__
        self.is_async = inspect.iscoroutinefunction(plain)
        # For generators: makes a context manager that yields the value.
        self.enter: Callable[..., Any] | None = None
        if inspect.isasyncgenfunction(plain):
            self.enter = asynccontextmanager(provider)
        elif inspect.isgeneratorfunction(plain):
            self.enter = contextmanager(provider)

    def _add(self, parameter: inspect.Parameter, hint: Any, outer: tuple[Provider, ...]) -> None:
        where = f"{_name(self.provider)}({parameter.name})"
        if isinstance(parameter.default, Dependency):
            inner = self.parameters[parameter.name] = _Plan(parameter.default, outer)
            if self.scope == "server" and inner.scope != "server":
                raise UsageError(f"{where}: a dependency of the server cannot depend on one of a request", path=where)
        elif isinstance(hint, type) and issubclass(hint, Context):
            if self.scope == "server":
                message = f"{where}: a dependency of the server has no Context; use the scope 'request'"
                raise UsageError(message, path=where)
            self.context = parameter.name
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            raise UsageError(f"{where}: a provider gets only a Context and other dependencies", path=where)


class _ServerScope:
    """A task that enters the generators of the server's dependencies and leaves them.

    Cancel scopes and task groups must be left in the task that entered them, which no request can be.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: asyncio.Queue[tuple[_Job, Future[Any]] | None] = asyncio.Queue()
        self._ended: Future[None] = Future()
        self._task = self._loop.create_task(self._run())

    async def run(self, job: "_Job") -> Any:
        """Run a coroutine function in the task, with its exit stack. Raises: what it raises."""
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._jobs.put_nowait, (job, done))
        return await asyncio.wrap_future(done)

    async def close(self) -> None:
        """Leave the generators, in reverse order. Raises: what they raise."""
        self._loop.call_soon_threadsafe(self._jobs.put_nowait, None)
        try:
            await asyncio.wrap_future(self._ended)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self._task.cancel)
            raise

    async def _run(self) -> None:
        is_closing = False
        try:
            async with AsyncExitStack() as stack:
                while (item := await self._jobs.get()) is not None:
                    await _complete(*item, stack)
                is_closing = True
        except BaseException as error:
            if is_closing and not self._ended.done():
                self._ended.set_exception(error)
            elif isinstance(error, Exception):
                logger.error("a dependency of the server failed while the server runs", exc_info=error)
            if not isinstance(error, Exception):
                raise
        finally:
            if not self._ended.done():
                self._ended.set_result(None)
            while not self._jobs.empty():
                item = self._jobs.get_nowait()
                if item is not None:
                    item[1].set_exception(UsageError("the dependencies of the server are closed"))


async def _complete(job: "_Job", done: "Future[Any]", stack: AsyncExitStack) -> None:
    try:
        value = await job(stack)
    except Exception as error:  # noqa: BLE001  # raised in the request that waits for it
        if not done.cancelled():
            done.set_exception(error)
    else:
        if not done.cancelled():
            done.set_result(value)


class Dependencies:
    """The dependencies of one server: those that live as long as the server, and replacements for tests."""

    def __init__(self) -> None:
        self._replacements: dict[Provider, Provider] = {}
        self._plans: dict[tuple[Provider, str], _Plan] = {}
        self._values: dict[Provider, Any] = {}
        # For each value of `_values`, the providers that it was made from, as they are declared.
        self._sources: dict[Provider, frozenset[Provider]] = {}
        self._scope: _ServerScope | None = None
        # Tasks that wait for a function in a thread, to end its dependencies.
        self._ending: dict[asyncio.Task[None], Future[None]] = {}

    @contextmanager
    def override(self, provider: Provider, replacement: Provider) -> Iterator[None]:
        """Call `replacement` instead of `provider` inside a `with` block.

        What was made from `provider` for the server is set aside, and what is made from `replacement` ends with the
        block.
        """
        before = self._replacements.get(provider)
        aside = {made: value for made, value in self._values.items() if provider in self._sources[made]}
        self._forget(provider)
        self._replacements[provider] = replacement
        try:
            yield
        finally:
            self._forget(provider)
            self._values.update(aside)
            if before is None:
                del self._replacements[provider]
            else:
                self._replacements[provider] = before

    def _forget(self, provider: Provider) -> None:
        for made in [made for made in self._values if provider in self._sources[made]]:
            del self._values[made]

    async def resolve(
        self, plans: Mapping[str, _Plan], context: Context, stack: AsyncExitStack, found: dict[Provider, Any]
    ) -> dict[str, Any]:
        """Return the values by parameter. `found` has the values of this request, `stack` its generators."""
        values: dict[str, Any] = {}
        for name, plan in plans.items():
            if plan.scope == "server":
                values[name] = await self._resolve_for_server(plan)
            else:
                values[name] = await self._value(plan, context, stack, found)
        return values

    async def _resolve_for_server(self, plan: _Plan) -> Any:
        provider = self._replaced(plan).provider
        if provider in self._values:
            return self._values[provider]
        if self._scope is None:
            self._scope = _ServerScope()
        return await self._scope.run(lambda stack: self._server_value(plan, stack))

    async def _server_value(self, declared: _Plan, stack: AsyncExitStack) -> Any:
        plan = self._replaced(declared)
        if plan.provider not in self._values:
            arguments = {name: await self._server_value(inner, stack) for name, inner in plan.parameters.items()}
            value = await _call(plan, arguments, stack)
            inner_sources = (self._sources[self._replaced(inner).provider] for inner in plan.parameters.values())
            self._sources[plan.provider] = frozenset({declared.provider, plan.provider}).union(*inner_sources)
            self._values[plan.provider] = value
        return self._values[plan.provider]

    async def _value(self, plan: _Plan, context: Context, stack: AsyncExitStack, found: dict[Provider, Any]) -> Any:
        plan = self._replaced(plan)
        if plan.provider not in found:
            arguments = await self.resolve(plan.parameters, context, stack, found)
            if plan.context is not None:
                arguments[plan.context] = context
            found[plan.provider] = await _call(plan, arguments, stack)
        return found[plan.provider]

    def _replaced(self, plan: _Plan) -> _Plan:
        replacement = self._replacements.get(plan.provider) if self._replacements else None
        if replacement is None:
            return plan
        key = replacement, plan.scope
        if key not in self._plans:
            self._plans[key] = _Plan(Dependency(replacement, plan.scope))
        return self._plans[key]

    def end_after(self, returned: asyncio.Event, stack: AsyncExitStack, error: BaseException) -> None:
        """Leave the generators of a request with this error once its function has returned, or in `close`."""
        task = asyncio.get_running_loop().create_task(_end_after(returned, stack, error))
        self._ending[task] = Future()
        task.add_done_callback(lambda task: self._ending.pop(task).set_result(None))

    async def close(self) -> None:
        """End the dependencies of requests whose function still runs in a thread, then those of the server."""
        for task, ended in list(self._ending.items()):
            with suppress(RuntimeError):  # its loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)
                await asyncio.wrap_future(ended)
        scope, self._scope = self._scope, None
        self._values.clear()
        if scope is not None:
            await scope.close()


async def _call(plan: _Plan, arguments: dict[str, Any], stack: AsyncExitStack) -> Any:
    """Call a provider. A generator is entered, and left with the stack."""
    if plan.enter is None:
        value = plan.provider(**arguments)
        return await value if plan.is_async or inspect.isawaitable(value) else value
    manager = plan.enter(**arguments)
    is_async = hasattr(manager, "__aenter__")
    return await stack.enter_async_context(manager) if is_async else stack.enter_context(manager)


async def _end_after(returned: asyncio.Event, stack: AsyncExitStack, error: BaseException) -> None:
    with suppress(asyncio.CancelledError):
        await returned.wait()
    try:
        await stack.__aexit__(type(error), error, error.__traceback__)
    except asyncio.CancelledError:
        pass  # the error itself
    except Exception:  # generators may raise anything
        logger.exception("a dependency of a cancelled request failed when it ended")


def _claim(unclaimed: list[None]) -> bool:
    """Return True to the first caller, in any thread."""
    try:
        unclaimed.pop()
    except IndexError:
        return False
    return True


class Injected:
    """Calls a function with the arguments of the client and the values of its dependencies."""

    __slots__ = ("_call", "_context", "_is_async", "_passes_context", "_plans", "_positional", "uses_thread")

    def __init__(
        self,
        call: Callable[..., Any],
        dependencies: Mapping[str, Dependency],
        positional: list[str],
        context: str,
        *,
        is_async: bool,
        passes_context: bool,
    ) -> None:
        self._call = call
        self._plans = {name: _Plan(dependency) for name, dependency in dependencies.items()}
        self._positional = positional
        self._context = context
        self._is_async = is_async
        self._passes_context = passes_context
        self.uses_thread = not is_async

    async def __call__(self, *args: object, **keywords: Any) -> Any:
        named = dict(zip(self._positional, args, strict=True))
        named.update(keywords)
        context: Any = named[self._context] if self._passes_context else named.pop(self._context)
        async with AsyncExitStack() as stack:
            named.update(await context._dependencies.resolve(self._plans, context, stack, {}))
            if self._is_async:
                return await self._call(**named)
            if self.uses_thread:
                return await self._run_in_thread(named, context, stack)
            return self._call(**named)

    async def _run_in_thread(self, named: dict[str, Any], context: Any, stack: AsyncExitStack) -> Any:
        """Call the function in a thread. If this is cancelled, the function keeps its dependencies until it returns."""
        loop, returned = asyncio.get_running_loop(), asyncio.Event()
        unclaimed = [None]  # claimed by the thread, or by a cancellation before the thread begins

        def call() -> Any:
            if not _claim(unclaimed):
                return None
            try:
                return self._call(**named)
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(returned.set)

        try:
            return await context._run_in_thread(call)
        except asyncio.CancelledError as error:
            if not _claim(unclaimed) and not returned.is_set():
                context._dependencies.end_after(returned, stack.pop_all(), error)
            raise


def _hints(provider: Provider) -> dict[str, Any]:
    plain: Any = provider if inspect.isroutine(provider) else getattr(provider, "__init__", provider)
    if not inspect.isroutine(provider) and not isinstance(provider, type):
        plain = type(provider).__call__
    try:
        return get_type_hints(plain)
    except Exception as error:  # an annotation may raise anything
        raise UsageError(f"{_name(provider)}: cannot resolve an annotation: {error}", path=_name(provider)) from error


def _name(provider: Provider) -> str:
    return getattr(provider, "__qualname__", type(provider).__name__)
