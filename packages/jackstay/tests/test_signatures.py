"""What `help()` shows: every option by name, type and default, in all functions that accept options."""

import importlib
import inspect
import pkgutil
import pydoc
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import jackstay
from jackstay import Client, Fleet, Server, connect, sync
from jackstay._signatures import shows

# Packages whose completion is checked.
PACKAGES = (
    "jackstay",
    *(f"jackstay.{name}" for name in ("agents", "client", "models", "openapi", "proxy", "server", "sync")),
)


def functions() -> Iterator[tuple[str, Any]]:
    """Return the functions and methods of the names that most programs import."""
    for package in ("jackstay", "jackstay.models", "jackstay.openapi", "jackstay.proxy"):
        module = importlib.import_module(package)
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and found.__module__.startswith("jackstay"):
                yield f"{package}.{name}", found.__init__
                for method, value in inspect.getmembers(found, inspect.isroutine):
                    if not method.startswith("_"):
                        yield f"{package}.{name}.{method}", value
            elif inspect.isfunction(found):
                yield f"{package}.{name}", found


def test_no_public_function_hides_its_options() -> None:
    hidden, count = [], 0
    for name, function in functions():
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # written in C
            continue
        annotations = [str(row.annotation) for row in parameters if row.kind is row.VAR_KEYWORD]
        count += 1
        hidden += [name for text in annotations if "Unpack" in text or text.startswith("*")]
    assert count > 80
    assert hidden == []


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Server, ["name: str", "lifespan: ", "shutdown_timeout: float = 5.0", "threads: int = 32"]),
        (Server.tool, ["timeout: float | None = None", "tags: Iterable[str] = ()", "meta: Mapping[str, Json] | None"]),
        (Server("x").tool, ["(function: F | None = None, /, *, name: str | None = None"]),
        (Server.resource, ["uri: str, *, name: str | None = None", "mime_type: str | None = None"]),
        (Server.run, ["transport: str = 'stdio'", "port: int = 8000", "sessions: bool = False", "-> int"]),
        (Server.from_openapi, ["document: Source", "routes: Sequence[Route] = ()", "-> Self"]),
        (connect, ["wait_for_ready: bool = True", "replay: Literal['never', 'safe'] = 'never'", "-> Client"]),
        (Client, ["request_timeout: float | None = 30.0"]),
        (Fleet, ["separator: str = '__'", "keepalive: float | None = None"]),
        (sync.Client.ping, ["timeout: float | None = ..."]),
        (sync.connect, ["wait_for_ready: bool = True"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_help_names_every_option(function: Any, expected: list[str]) -> None:
    signature = str(inspect.signature(function))
    for text in expected:
        assert text in signature
    for text in ("**", "ForwardRef", "jackstay.", "typing."):
        assert text not in signature
    shown = " ".join(pydoc.render_doc(function, renderer=pydoc.plaintext).split())  # Python 3.13 wraps the signature
    assert expected[0] in shown.replace("( ", "(")


def test_an_option_is_shown_once_and_hidden_ones_are_not() -> None:
    names = list(inspect.signature(Server.add_tool).parameters)
    assert len(names) == len(set(names))
    assert "structured" not in names
    assert "output_schema" in names
    assert "name" not in inspect.signature(Fleet).parameters


def test_what_looks_beyond_the_signature_finds_the_function() -> None:
    assert inspect.getsource(connect).startswith("@shows")
    assert inspect.iscoroutinefunction(Client.ping)
    assert "ping" in repr(Client.ping.__wrapped__)  # type: ignore[attr-defined]

    @shows("jackstay.client:CallOptions")
    def example(first: int, second: str = "x", *, third: float, **options: Any) -> bool:
        return bool(options) or bool(first) or bool(second) or bool(third)

    assert typing.get_type_hints(example)["third"] is float
    assert example(0, third=0.0) is True
    assert str(inspect.signature(example)).startswith("(first: int, second: str = 'x', *, third: float, timeout: ")


def test_completion_offers_public_names_only() -> None:
    """As a shell does after `name.`: names without an underscore."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        submodules = {row.name for row in pkgutil.iter_modules(module.__path__)}
        offered = {name for name in dir(module) if not name.startswith("_")}
        assert offered - submodules <= set(module.__all__), package
    assert {"connect", "Server", "Client"} <= set(dir(jackstay))
