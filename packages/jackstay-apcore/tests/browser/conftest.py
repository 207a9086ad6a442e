"""Fixtures: a server on a thread, and modules that are difficult for a page. `scripted.chromium` has the browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import ModuleAnnotations, Registry

from apcore_mcp import MCPServer
from scripted.chromium import browser, page
from scripted.places import ROOT

__all__ = ["browser", "page"]

DEMO = ROOT / "examples" / "apcore_demo" / "extensions"

HOSTILE = (
    "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    "<a href=\"javascript:document.title='pwned'\">click</a> \u202egnp.exe \U000e0041\U000e0042\U000e0141\u00ad end"
)

# A schema with every kind of form field.
KINDS: dict[str, Any] = {
    "type": "object",
    "required": ["word", "whole", "yes", "pick", "nested", "list"],
    "properties": {
        "word": {"type": "string", "description": HOSTILE},
        "whole": {"type": "integer", "minimum": 1},
        "real": {"type": "number", "default": 2.5},
        "yes": {"type": "boolean"},
        "pick": {"enum": ["a", 2, None, True]},
        "day": {"type": "string", "format": "date"},
        "secret": {"type": "string", "x-sensitive": True},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "either": {
            "oneOf": [
                {"type": "integer"},
                {
                    "type": "object",
                    "title": "Named",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}},
                },
            ]
        },
        "two": {"type": ["string", "null"]},
        "fixed": {"const": "always"},
        "nested": {
            "type": "object",
            "required": ["inner"],
            "properties": {"inner": {"type": "string"}, "more": {"type": "string", "default": "x"}},
        },
        "list": {"type": "array", "items": {"type": "integer"}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
        "tree": {"$ref": "#/$defs/Node"},
        "any": {},
        "__proto__": {"type": "string"},
    },
    "$defs": {
        "Node": {
            "type": "object",
            "title": "Node",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }
    },
}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: SimpleNamespace) -> Registry:
    """The modules of the demo, a module that echoes every kind of field, and a hostile module."""
    monkeypatch.setenv("APCORE_DEMO_NOTES", str(tmp_path))
    made = Registry(extensions_dir=str(DEMO))
    made.discover()
    echo = kinds.Plain(lambda inputs, context: {"got": inputs}, input_schema=KINDS, description="Echo")
    made.register("test.kinds", echo)
    hostile = kinds.Plain(
        lambda inputs, context: {"<b>key</b>": HOSTILE},
        description=HOSTILE,
        documentation=HOSTILE,
        tags=["<i>tag</i>"],
        annotations=ModuleAnnotations(readonly=True),
    )
    made.register("test.hostile", hostile)
    return made


class Served:
    """Starts a server for the demo when called with options, and returns the URL of the inspector."""

    def __init__(self, registry: Registry, port: int, listening: Callable[[int], bool]) -> None:
        self._registry = registry
        self._port = port
        self._is_listening = listening
        self._server: MCPServer | None = None

    def __call__(self, **options: Any) -> str:
        server = MCPServer(
            self._registry,
            transport="streamable-http",
            port=self._port,
            explorer=True,
            dynamic=True,
            **options,
        )
        server.start()
        self._server = server
        assert self._is_listening(self._port), server.error
        return f"http://127.0.0.1:{self._port}/inspector"

    def stop(self) -> None:
        """Stop the server. Open pages with event streams must not delay the shutdown."""
        if self._server is not None:
            self._server.stop()
            assert self._server.wait(120)
            self._server = None


@pytest.fixture
def served(demo: Registry, port: int, listening: Callable[[int], bool]) -> Iterator[Served]:
    """A server for this test."""
    made = Served(demo, port, listening)
    yield made
    made.stop()
