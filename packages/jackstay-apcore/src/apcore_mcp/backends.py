"""Registries and executors of apcore, and objects that only have their methods.

A registry needs `list()` and `get_definition()`, an executor `call_async()`. `AdaptedExecutor` adds the other methods
that the bridge uses. It has no approval gate, so the router enforces `requires_approval` itself.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, Final

# The methods of an executor that the bridge calls.
_EXECUTOR_METHODS: Final = (
    "call_async",
    "call_async_with_trace",
    "stream",
    "governance_state",
    "set_approval_handler",
    "use",
)


def is_registry(given: object) -> bool:
    """Return whether an object has the methods of a registry."""
    return all(callable(getattr(given, method, None)) for method in ("list", "get_definition"))


def is_apcore_registry(given: object) -> bool:
    """Return whether an object is a registry of apcore."""
    from apcore import Registry  # type: ignore[import-untyped]  # noqa: PLC0415  # apcore ships no types

    return isinstance(given, Registry)


def check_registry(given: object) -> None:
    """Raise TypeError unless an object has the methods of a registry."""
    if not is_registry(given):
        raise TypeError(f"registry must be an apcore Registry, not {type(given).__name__}")


def is_executor(given: object) -> bool:
    """Return whether an object has the methods of an executor, or of one that wraps an executor of apcore."""
    return not isinstance(given, type) and callable(getattr(given, "call_async", None))


def adapt_executor(given: Any) -> Any:
    """Return an executor with all methods that the bridge uses. Raises: TypeError."""
    if not is_executor(given):
        raise TypeError(f"executor must be an apcore Executor, not {type(given).__name__}")
    is_complete = is_apcore_registry(getattr(given, "registry", None)) and hasattr(given, "current_strategy")
    if isinstance(given, AdaptedExecutor) or (
        is_complete and all(callable(getattr(given, method, None)) for method in _EXECUTOR_METHODS)
    ):
        return given
    return AdaptedExecutor(given)


class UnsupportedExecutorError(TypeError, RuntimeError):
    """An executor without a method that an option needs. A RuntimeError, as in apcore-mcp."""


class AdaptedExecutor:
    """An object with `call_async()`, with the other methods of an executor."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self._has_context = {name: _accepts_context(getattr(given, name, None)) for name in ("call_async", "stream")}
        self.current_strategy = SimpleNamespace(steps=())
        registry = getattr(given, "registry", None)
        self.registry: Any = registry if is_registry(registry) else _NoModules()
        # Whether modules can be streamed.
        self.can_stream = callable(getattr(given, "stream", None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)

    def describe(self, module_id: str) -> Any:
        """Return the definition of a module, or None."""
        define = getattr(getattr(self._given, "registry", None), "get_definition", None)
        return define(module_id) if callable(define) else None

    def governance_state(self) -> Any:
        """Return the state of an executor without gates."""
        return SimpleNamespace(
            builtin_approval_gate_wired=False,
            builtin_acl_gate_wired=False,
            approval_handler_configured=False,
            acl_configured=False,
            policy_strict=False,
            unprotected_control_surface=False,
        )

    def set_approval_handler(self, handler: object) -> None:
        """Pass the handler on. Raises: TypeError, because it would have no effect."""
        self._pass_on("set_approval_handler", handler)

    def set_acl(self, acl: object) -> None:
        """Pass the ACL on. Raises: TypeError, because it would have no effect."""
        self._pass_on("set_acl", acl)

    def use(self, middleware: object) -> None:
        """Pass the middleware on. Raises: TypeError, because it would have no effect."""
        self._pass_on("use", middleware)

    async def call_async(self, module_id: str, inputs: Any, context: Any = None, **options: Any) -> Any:
        """Run a module."""
        rest = (context,) if self._has_context["call_async"] else ()
        return await self._given.call_async(module_id, inputs, *rest, **options)

    async def call_async_with_trace(self, module_id: str, inputs: Any, context: Any = None) -> Any:
        """Run a module, and return its output and the steps of the pipeline."""
        rest = (context,) if self._has_context["call_async"] else ()
        return await self._given.call_async_with_trace(module_id, inputs, *rest)

    def stream(self, module_id: str, inputs: Any, context: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Run a streaming module."""
        rest = (context,) if self._has_context["stream"] else ()
        chunks: AsyncIterator[Any] = self._given.stream(module_id, inputs, *rest, **options)
        return chunks

    def _pass_on(self, method: str, value: object) -> None:
        accept: Callable[[object], object] | None = getattr(self._given, method, None)
        if not callable(accept):
            raise UnsupportedExecutorError(
                f"{type(self._given).__name__} does not support .{method}(); pass an Executor of apcore"
            )
        accept(value)


class _NoModules:
    """The registry of an executor without one."""

    def list(self, **_: object) -> "list[str]":
        return []

    def get_definition(self, module_id: str) -> None: ...


def _accepts_context(method: Any) -> bool:
    """Return whether a method accepts a third argument by position."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return callable(method)
    by_position = [parameter for parameter in parameters if parameter.kind in _BY_POSITION]
    return len(by_position) > 2 or any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)


_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


__all__ = [
    "AdaptedExecutor",
    "UnsupportedExecutorError",
    "adapt_executor",
    "check_registry",
    "is_apcore_registry",
    "is_executor",
    "is_registry",
]
