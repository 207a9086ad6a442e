"""Count what of apcore-mcp 0.23.3 works with our bridge: names, keywords, flags, settings, README programs, examples.

Run it with the interpreter of the peer `apcore_suite` (`make public-suite` installs it) and our sources on PYTHONPATH;
`make apcore-numbers` does that. The argument is the directory of the source distribution. Prints a table; the exit code
is 1 if anything does not work.
"""

import argparse
import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

# Python of the README that only uses another package.
FOREIGN: Final = ("import openai",)


def main(source: Path) -> int:
    """Count everything below `source`, and print what does not work."""
    package = source / "src" / "apcore_mcp"
    counts: dict[str, dict[str, str]] = {
        "names": {name: _import("apcore_mcp", name) for name in _names(package)},
        "modules": {name: _import(name) for name in _modules(package)},
        "keywords of serve()": _keywords(package / "__init__.py", "serve"),
        "keywords of MCPServer()": _keywords(package / "server" / "server.py", "__init__"),
        "keywords of APCoreMCP()": _keywords(package / "apcore_mcp.py", "__init__"),
        "flags": {flag: _flag(flag) for flag in _flags(package / "__main__.py")},
        "settings": {key: _setting(key) for key in _settings()},
        "examples": {path: _example(source, path) for path in ("examples/run.py", "examples/binding_demo/run.py")},
        "README programs": _programs(source),
    }
    for title, rows in counts.items():
        failed = {name: problem for name, problem in rows.items() if problem}
        print(f"{title}: {len(rows) - len(failed)}/{len(rows)}")
        for name, problem in failed.items():
            print(f"  {name}: {problem}")
    return int(any(problem for rows in counts.values() for problem in rows.values()))


# --- what there is ----------------------------------------------------------------------------------------------------


def _names(package: Path) -> list[str]:
    tree = ast.parse((package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise ValueError("no __all__")


def _modules(package: Path) -> Iterator[str]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if not any(part.startswith("_") for part in parts if part != "__init__"):
            yield ".".join(part for part in parts if part != "__init__")


def _parameters(path: Path, function: str) -> list[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == function and node.args.kwonlyargs:
            return [argument.arg for argument in node.args.kwonlyargs if not argument.arg.startswith("_")]
    raise ValueError(f"no {function} in {path}")


def _flags(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("add_argument"):
            yield ast.literal_eval(node.args[0])


def _settings() -> list[str]:
    from apcore_mcp import MCP_DEFAULTS  # noqa: PLC0415  # compared with the suite by its own tests

    return [*MCP_DEFAULTS, "pipeline"]


# --- whether it works -------------------------------------------------------------------------------------------------


def _attempt(work: Callable[[], object]) -> str:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            work()
    except BaseException as error:  # noqa: BLE001  # a program may also exit
        line = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"[:300]
    return ""


def _import(module: str, name: str = "") -> str:
    return _attempt(lambda: getattr(importlib.import_module(module), name) if name else importlib.import_module(module))


def _keywords(path: Path, function: str) -> dict[str, str]:
    from apcore_mcp.compat.keywords import KEYWORDS  # noqa: PLC0415  # needs our sources

    return {name: "" if name in KEYWORDS else "unknown" for name in _parameters(path, function)}


def _flag(flag: str) -> str:
    from apcore_mcp.cli._flags import make_parser  # noqa: PLC0415  # needs our sources

    return "" if flag in make_parser()._option_string_actions else "unknown"


def _setting(key: str) -> str:
    from apcore_mcp import config  # noqa: PLC0415  # needs our sources

    return "" if key in {**config._OPTIONS, **config._READERS} else "unknown"


@contextlib.contextmanager
def _served() -> Iterator[list[Any]]:
    """Record the servers that programs run, instead of running them."""
    import uvicorn  # noqa: PLC0415  # of the environment

    from apcore_mcp.server.transport import TransportManager  # noqa: PLC0415  # needs our sources

    found: list[Any] = []

    async def serve(self: Any, **_: Any) -> None:
        found.append(self.config.app)

    def run_server(self: Any, server: Any, *_: Any) -> None:  # noqa: ARG001  # the signature of the method
        found.append(server)

    run, TransportManager.run = TransportManager.run, run_server  # type: ignore[method-assign,assignment]
    original, uvicorn.Server.serve = uvicorn.Server.serve, serve  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        TransportManager.run, uvicorn.Server.serve = run, original  # type: ignore[method-assign]


def _example(source: Path, path: str) -> str:
    def work() -> None:
        sys.path.insert(0, str(source / "examples" / "binding_demo"))
        with contextlib.chdir(source), _served() as servers:
            runpy.run_path(path, run_name="__main__")
        (server,) = servers
        tools = asyncio.run(server.list_tools())
        expected = 5 if path == "examples/run.py" else 2
        if len(tools) != expected:
            raise ValueError(f"{len(tools)} tools, not {expected}")

    return _attempt(work)


def _programs(source: Path) -> dict[str, str]:
    text = (source / "README.md").read_text()
    blocks = [found[1] for found in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
    blocks = [block for block in blocks if not block.startswith(FOREIGN)]
    found = {}
    for number, block in enumerate(blocks, 1):
        found[f"block {number}"] = _attempt(partial(_program, source, block))
    return found


def _program(source: Path, block: str) -> None:
    """Run a block of the README. Many continue another one, so they get the names that the README has defined."""
    from apcore import Context, Registry  # type: ignore[import-untyped]  # noqa: PLC0415  # of the environment
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.routing import Mount  # noqa: PLC0415

    import apcore_mcp  # noqa: PLC0415  # needs our sources

    async def other(scope: Any, receive: Any, send: Any) -> None:
        """Do nothing."""

    with contextlib.chdir(source / "examples"):
        registry = Registry(extensions_dir="./extensions")
        registry.discover()
        names: dict[str, Any] = {
            **{name: getattr(apcore_mcp, name) for name in ("APCoreMCP", "serve", "to_openai_tools")},
            "registry": registry,
            "registry_or_executor": registry,
            "auth": apcore_mcp.JWTAuthenticator(key="my-secret"),
            "context": Context.create(),
            "Starlette": Starlette,
            "Mount": Mount,
            "uvicorn": importlib.import_module("uvicorn"),
            "a2a_app": other,
            "client": SimpleNamespace(),
        }
        code = compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with _served():
            result = eval(code, names)  # a program of the source distribution
            if inspect.iscoroutine(result):
                asyncio.run(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    os.environ.pop("APCORE_JWT_SECRET", None)
    sys.exit(main(parser.parse_args().source.resolve()))
