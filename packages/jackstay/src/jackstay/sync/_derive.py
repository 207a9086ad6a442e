"""`Blocking`: derives a blocking class from an async one.

A subclass has the public members of its source with their signatures and docstrings, so a method that is added to the
async class needs no change here. `tools/make_sync_stub.py` writes the result to `__init__.pyi` for type checkers.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, ClassVar, TypeVar

from jackstay.sync._portal import ClientPortal

F = TypeVar("F", bound=Callable[..., Any])

# The special methods that are derived; they run on the thread of the caller.
SPECIAL = {"__iter__", "__len__", "__contains__"}


class Blocking:
    """An async object and the portal that runs its methods.

    `source` is the async class. A coroutine function waits for its result; any other method or property runs on the
    event loop thread, or on the thread of the caller if it is in `inline`. Attributes of the async object are copied,
    with their blocking counterparts where there are any. What the subclass defines or inherits is kept.
    """

    _counterparts: ClassVar[dict[type, type["Blocking"]]] = {}
    _source: ClassVar[type]
    _omitted: ClassVar[Collection[str]] = ()  # attributes of the async object that the blocking one does not have

    def __init_subclass__(cls, source: type | None = None, inline: Collection[str] = ()) -> None:
        if source is None:
            return  # a base class
        cls.__module__ = cls.__module__.rpartition(".")[0]  # where it is public
        cls.__doc__ = cls.__doc__ or _blocking_text(source.__doc__)
        cls._source = source
        cls._counterparts[source] = cls
        for name, member in vars(source).items():
            is_public = name in SPECIAL or not name.startswith("_")
            if is_public and name not in vars(cls):
                own = getattr(cls, name, None)
                derived = _derive(name, member, inline) if own is None else _inherit(own, member)
                if derived is not None:
                    setattr(cls, name, derived)

    def __init__(self, async_object: Any, client_portal: ClientPortal) -> None:
        self._bind(async_object, client_portal)

    def __repr__(self) -> str:
        return repr(self._async).replace("<", "<sync.", 1)

    def _bind(self, async_object: Any, client_portal: ClientPortal) -> None:
        self._async = async_object
        self._client_portal = client_portal
        self._portal = client_portal.portal
        for name, value in vars(async_object).items():
            if not name.startswith("_") and name not in self._omitted:
                counterpart = self._counterparts.get(type(value))
                setattr(self, name, value if counterpart is None else counterpart(value, client_portal))


def like(source: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the name, signature and docstring of `source`."""

    def decorate(function: F) -> F:
        module = function.__module__
        functools.update_wrapper(function, source)
        function.__module__ = module
        function.__doc__ = _blocking_text(source.__doc__)
        return function

    return decorate


def _blocking_text(text: str | None) -> str | None:
    """Return a docstring of the async API in the words of the blocking one."""
    return text and text.replace("`async with`", "`with`").replace("between tasks", "between threads")


def _inherit(own: Callable[..., Any], member: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a base class with the signature and docstring of the source of this class."""

    @like(member)
    def call(self: Blocking, *args: Any, **kwargs: Any) -> Any:
        return own(self, *args, **kwargs)

    return call


def _derive(name: str, member: Any, inline: Collection[str]) -> Any:
    """Return the blocking form of one member of an async class; None if it has none."""
    if isinstance(member, classmethod):

        @like(member.__func__)
        def construct(cls: type[Blocking], *args: Any, **kwargs: Any) -> Blocking:
            blocking = cls.__new__(cls)
            blocking._bind(getattr(cls._source, name)(*args, **kwargs), ClientPortal())
            return blocking

        return classmethod(construct)
    if isinstance(member, property):
        assert member.fget is not None

        @like(member.fget)
        def get(self: Blocking) -> Any:
            if name in inline:
                return getattr(self._async, name)
            return self._portal.run_on_loop(getattr, self._async, name)

        return property(get)
    if not inspect.isfunction(member):
        return None

    @like(member)
    def call(self: Blocking, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self._async, name)
        if is_coroutine:
            return self._client_portal.wait(method, *args, **kwargs)
        return method(*args, **kwargs) if is_inline else self._portal.run_on_loop(method, *args, **kwargs)

    is_coroutine = inspect.iscoroutinefunction(member)
    is_inline = name in inline or name in SPECIAL
    return call
