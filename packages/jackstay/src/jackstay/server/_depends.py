"""`Depends`: arguments that functions provide, instead of the client. Loaded by servers that use it."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias, get_type_hints

from jackstay.errors import UsageError
from jackstay.server._context import Context
from jackstay.server._functions import Dependency

Provider: TypeAlias = Callable[..., Any]


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
            raise UsageError(f"dependency cycle: {path}", path=name)
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
                raise UsageError(f"{where}: a dependency of the server has no Context", path=where)
            self.context = parameter.name
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            raise UsageError(f"{where}: a provider gets only a Context and other dependencies", path=where)


class Dependencies:
    """The dependencies of one server: those that live as long as the server, and replacements for tests."""

    def __init__(self) -> None:
        self._replacements: dict[Provider, Provider] = {}
        self._plans: dict[tuple[Provider, str], _Plan] = {}
        self._values: dict[Provider, Any] = {}
        self._stack: AsyncExitStack | None = None
        self._lock: asyncio.Lock | None = None

    @contextmanager
    def override(self, provider: Provider, replacement: Provider) -> Iterator[None]:
        """Call `replacement` instead of `provider` inside a `with` block."""
        before = self._replacements.get(provider)
        self._replacements[provider] = replacement
        try:
            yield
        finally:
            if before is None:
                del self._replacements[provider]
            else:
                self._replacements[provider] = before

    async def resolve(
        self, plans: Mapping[str, _Plan], context: Context, stack: AsyncExitStack, found: dict[Provider, Any]
    ) -> dict[str, Any]:
        """Return the values by parameter. `found` has the values of this request, `stack` its generators."""
        values: dict[str, Any] = {}
        for name, plan in plans.items():
            if plan.scope == "server":
                values[name] = await self._resolve_for_server(plan, context)
            else:
                values[name] = await self._value(plan, context, stack, found)
        return values

    async def _resolve_for_server(self, plan: _Plan, context: Context) -> Any:
        plan = self._replaced(plan)
        if plan.provider in self._values:
            return self._values[plan.provider]
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if self._stack is None:
                self._stack = AsyncExitStack()
            return await self._value(plan, context, self._stack, self._values)

    async def _value(self, plan: _Plan, context: Context, stack: AsyncExitStack, found: dict[Provider, Any]) -> Any:
        plan = self._replaced(plan)
        if plan.provider in found:
            return found[plan.provider]
        if plan.scope == "server":
            arguments = {
                name: await self._value(inner, context, stack, found) for name, inner in plan.parameters.items()
            }
        else:
            arguments = await self.resolve(plan.parameters, context, stack, found)
        if plan.context is not None:
            arguments[plan.context] = context
        if plan.enter is None:
            value = plan.provider(**arguments)
            if plan.is_async or inspect.isawaitable(value):
                value = await value
        else:
            manager = plan.enter(**arguments)
            is_async = hasattr(manager, "__aenter__")
            value = await stack.enter_async_context(manager) if is_async else stack.enter_context(manager)
        found[plan.provider] = value
        return value

    def _replaced(self, plan: _Plan) -> _Plan:
        replacement = self._replacements.get(plan.provider) if self._replacements else None
        if replacement is None:
            return plan
        key = replacement, plan.scope
        if key not in self._plans:
            self._plans[key] = _Plan(Dependency(replacement, plan.scope))
        return self._plans[key]

    async def close(self) -> None:
        """End the dependencies of the server, in reverse order."""
        stack, self._stack, self._lock = self._stack, None, None
        self._values.clear()
        if stack is not None:
            await stack.aclose()


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
                return await context._run_in_thread(self._call, **named)
            return self._call(**named)


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
