"""The import map: which layer may import which, what layers without I/O may use, and names and sizes of files.

Every source file is checked. Planted violations at the end show that each rule can fail.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jackstay
from scripted.places import ROOT, SOURCES, import_path

sys.path.insert(0, str(ROOT / "tools"))
import count_source  # a script in tools/, found by its directory

FILES = [path for source in SOURCES.values() for path in sorted(source.rglob("*.py"))]
# What lazy packages import; tests/test_exports.py compares them with the packages.
STUBS = [path for source in SOURCES.values() for path in sorted(source.rglob("*.pyi"))]

# --- the map ----------------------------------------------------------------------------------------------------------

# layer -> the layers it may import from. A layer is a package or file directly under `jackstay`, or an application.
# `version` is jackstay/_version.py, reached as `jackstay.__version__` or by its file; `lazy` is jackstay/_lazy.py
# and jackstay/_signatures.py, which import nothing of the package.
RULES = ("version", "lazy", "errors", "types", "protocol")
CARRIERS = (*RULES, "extras", "transport")
MAP: dict[str, tuple[str, ...]] = {
    "version": (),
    "lazy": (),
    "extras": (),
    "errors": (),
    "types": ("lazy", "errors"),
    "protocol": ("version", "lazy", "errors", "types"),
    "transport": (*RULES, "extras"),
    "extensions": RULES,
    "apps": (*RULES, "extensions"),
    "skills": (*RULES, "extras"),
    "client": (*CARRIERS, "apps", "extensions", "skills"),
    "openapi": (*RULES, "extras"),
    "server": (*CARRIERS, "apps", "extensions", "openapi", "skills"),
    "redis": (*CARRIERS, "server"),
    "oauth": CARRIERS,
    # The store suites check interfaces of the server and of the authorizers.
    "testing": (*CARRIERS, "server", "oauth"),
    "models": (*CARRIERS, "apps", "client"),
    "shell": ("lazy", "errors", "extras"),
    "proxy": (*CARRIERS, "client", "server"),
    # The page of any server: a client, recordings and faults behind an HTTP server.
    "inspector": (*CARRIERS, "apps", "client", "server", "oauth", "testing"),
    "cli": (*CARRIERS, "client", "server", "oauth", "proxy", "redis", "shell", "testing", "inspector"),
    "sync": (*CARRIERS, "apps", "client", "models", "skills"),
    "agents": (*CARRIERS, "client", "models", "sync"),
    # It exports tools in the formats of `models`.
    "apcore_mcp": (*CARRIERS, "extensions", "server", "models", "openapi", "redis", "shell", "inspector"),
    "procontext": (*CARRIERS, "server", "redis", "shell"),
}

# What layers without I/O may import from the standard library: nothing that waits, reads, starts or is random.
# `re`, `math` and the like compute; a module that is not here needs a row, and a reason why it does no I/O.
PURE_LAYERS = ("version", "errors", "types", "protocol")
PURE_MODULES = {
    "__future__",
    "abc",
    "base64",
    "binascii",
    "bisect",
    "builtins",
    "codecs",
    "collections",
    "collections.abc",
    "copy",
    "dataclasses",
    "datetime",  # to parse a date from a peer; reading the clock is refused below
    "difflib",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "json",  # to parse again what msgspec rejects
    "keyword",
    "math",
    "operator",
    "re",
    "string",
    "types",
    "typing",
    "urllib.parse",
}
PURE_FORBIDDEN_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}
# Functions of allowed modules that open files or read the clock.
PURE_FORBIDDEN_METHODS = {
    f"{receiver}.{method}"
    for receiver in ("datetime", "datetime.datetime", "date", "datetime.date")
    for method in ("now", "today", "utcnow", "fromtimestamp")
} | {"codecs.open", "codecs.EncodedFile"}

# layer -> third-party modules it may import; a layer that is not here may import none.
THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "lazy": ("msgspec",),  # to read the declarations of options
    "types": ("msgspec",),
    "protocol": ("msgspec",),
    "transport": ("aiohttp", "httptools", "msgspec", "yarl"),
    "client": ("jsonschema", "msgspec", "referencing"),
    "server": ("h11", "httptools", "joserfc", "jsonschema", "msgspec", "referencing", "uvicorn", "uvloop"),
    "openapi": ("httpx", "msgspec", "yaml"),
    "shell": ("yaml",),
    "apps": ("msgspec",),
    "skills": ("msgspec", "yaml"),
    "testing": ("msgspec",),
    "redis": ("hiredis", "msgspec", "redis"),
    "oauth": ("joserfc", "msgspec"),
    "models": ("msgspec",),
    "agents": (
        "PIL",
        "agents",
        "autogen_agentchat",
        "autogen_core",
        "crewai",
        "google",
        "langchain_core",
        "llama_index",
        "mcp",
        "msgspec",
        "pydantic",
        "pydantic_ai",
        "pydantic_core",
        "semantic_kernel",
        "smolagents",
        "strands",
    ),
    "proxy": ("msgspec",),
    "inspector": ("msgspec",),
    "cli": ("msgspec",),
    "apcore_mcp": ("apcore", "httpx", "joserfc", "jsonschema", "msgspec", "pydantic", "referencing", "starlette"),
    "procontext": (
        "h11",
        "html_to_markdown",
        "msgspec",
        "platformdirs",
        "rapidfuzz",
        "selectolax",
        "yaml",
    ),
}

# Modules that programs written for apcore-mcp import by this name.
KEPT_NAMES = {"apcore_mcp/helpers.py", "apcore_mcp/_utils.py"}

FORBIDDEN_NAMES = {"common", "helper", "helpers", "manager", "managers", "shared", "util", "utils"}

# A file or function that exceeds these limits is listed in LARGE with the reason.
FILE_LINES = 600
FUNCTION_LINES = 60
LARGE: dict[str, str] = {
    "jackstay/server/_server.py": "the public class, with a short method for each feature",
    "jackstay/protocol/client/_actions.py": "one short function for each action and guard of the table",
    "jackstay/client/_requests.py:Requests.request": "the path of every call: splitting it would cost frames",
}

# Private attributes of the standard library and of other packages, where there is no public API.
FOREIGN_PRIVATE = {
    "_actions": "of argparse, for completion scripts",
    "_callbacks": "of asyncio's tasks, in `_parked_task`",
    "_exit": "of os",
    "_get_running_loop": "of asyncio: without an exception if there is none",
    "_is_text_encoding": "of codecs",
    "_module_meta": "of apcore's registries",
    "_Decompress": "of zlib: the type of its objects",
}

# Source files that have no test file of their own name, and where they are tested instead.
TESTED_ELSEWHERE = {
    "jackstay/_version.py": "tests/test_exports.py",
    "apcore_mcp/_version.py": "tests/test_exports.py",
    "procontext/_version.py": "tests/test_exports.py",
    "jackstay/cli/_commands.py": "packages/jackstay/tests/cli/test_main.py",
    "jackstay/cli/_logout.py": "packages/jackstay/tests/cli/test_login.py",
    # The states and timers: tested with the table.
    "jackstay/protocol/client/_states.py": "packages/jackstay/tests/protocol/client/test_table.py",
    "jackstay/protocol/server/_states.py": "packages/jackstay/tests/protocol/server/test_table.py",
    "jackstay/protocol/client/events.py": "packages/jackstay/tests/protocol/client/test_connection.py",
    # A mounted server and its lists: tested with the mounts.
    "jackstay/server/_mount.py": "packages/jackstay/tests/server/test_mounts.py",
    "jackstay/proxy/_mirror.py": "packages/jackstay/tests/proxy/test_mount.py",
    # The parts of a session, and the refusals of an app.
    "jackstay/server/http/_channel.py": "packages/jackstay/tests/server/http/test_session.py",
    "jackstay/server/http/_refusals.py": "packages/jackstay/tests/server/http/test_app.py",
    # The parts of a backend.
    **{
        f"jackstay/redis/_{name}.py": "packages/jackstay/tests/redis/test_failures.py"
        for name in ("bus", "engine", "events", "limits", "sessions")
    },
    # Frameworks that are not installed for development.
    **{
        f"jackstay/agents/_{framework}.py": f"tests/interop/agents/check_{framework}.py"
        for framework in (
            "adk",
            "autogen",
            "crewai",
            "langchain",
            "llama_index",
            "openai_agents",
            "pydantic_ai",
            "semantic_kernel",
            "smolagents",
            "strands",
        )
    },
    # The half of a connection that is independent of the transport.
    "jackstay/server/_driver.py": "packages/jackstay/tests/server/test_connection.py",
    "apcore_mcp/cli/_entry.py": "packages/jackstay-apcore/tests/cli/test_main.py",
    # An interface: tested with its implementations.
    "procontext/interfaces.py": "packages/jackstay-procontext/tests/tools/test_tools.py",
    # The modules of apcore-mcp whose content is elsewhere.
    **{
        f"apcore_mcp/{name}.py": "packages/jackstay-apcore/tests/compat/test_names.py"
        for name in (
            "_utils",
            "acl_builder",
            "apcore_mcp",
            "approval_store",
            "constants",
            "markdown",
            "middleware_builder",
            "openapi_backend",
            "adapters/approval",
            "adapters/formatter",
            "auth/middleware",
            "auth/protocol",
            "compat/constants",
            "compat/markdown",
            "server/approval_bridge",
            "server/async_task_bridge",
            "server/server",
        )
    },
    # Keywords for type checkers: compared with the settings.
    **{
        f"jackstay/{layer}/_keywords.py": "tests/test_declarations.py"
        for layer in ("protocol/client", "server", "server/http", "openapi")
    },
    # The commands are tested through the entry point.
    **{
        f"procontext/cli/_{name}.py": "packages/jackstay-procontext/tests/cli/test_main.py"
        for name in (
            "application",
            "commands",
            "docs",
            "entry",
            "fetch",
            "numbers",
            "parsers",
            "read",
            "resolve",
            "search",
            "serve",
            "setup",
        )
    },
    # Rows without behaviour: tested with the code that uses them.
    "procontext/page/_document_errors.py": "packages/jackstay-procontext/tests/page/test_documents_errors.py",
    "procontext/cache/_rows.py": "packages/jackstay-procontext/tests/cache/test_store.py",
    "procontext/fetch/_failures.py": "packages/jackstay-procontext/tests/fetch/test_urls.py",
}

# --- reading a file ---------------------------------------------------------------------------------------------------


def layer_of(module: str) -> str | None:
    """The layer a module of ours belongs to; None for the lazy front `jackstay` itself and for foreign modules."""
    top, _, rest = module.partition(".")
    if top in ("apcore_mcp", "procontext"):
        return top
    if top != "jackstay" or not rest:
        return None
    name = rest.split(".")[0]
    return {"_version": "version", "_lazy": "lazy", "_signatures": "lazy", "__main__": "cli"}.get(name, name)


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name) of every import anywhere in the file: also in functions, also for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + (node.module or ""), alias.name


def is_own_module(module: str) -> bool:
    top = module.partition(".")[0]
    if top not in SOURCES:
        return False
    path = SOURCES[top].joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def import_violations(module: str, tree: ast.AST) -> Iterator[str]:
    """Every way in which this module's imports break the map."""
    here = layer_of(module)
    for line, target, name in imports(tree):
        if target.startswith("."):
            yield f"{line}: relative import of {target}"
            continue
        if target == "jackstay" and name is not None:
            # `from jackstay import X` is an import from the layer that X lives in.
            if is_own_module(f"jackstay.{name}"):
                target, name = f"jackstay.{name}", None
            elif name == "__version__":
                target = "jackstay._version"
            else:
                home = getattr(getattr(jackstay, name, None), "__module__", "jackstay")
                target = ".".join(home.split(".")[:2])
        elif name is not None and name.startswith("_") and is_own_module(f"{target}.{name}"):
            target, name = f"{target}.{name}", None
        there = layer_of(target)
        if there is None and target.split(".")[0] == "jackstay":
            if here is not None and here not in ("apcore_mcp", "procontext"):
                yield f"{line}: {here} imports the front `jackstay`, which is above every layer"
        elif there is None:
            yield from foreign_violations(line, here, target)
        elif there != here:
            if here is None and module == "jackstay":
                pass  # the front shows every layer
            elif there not in MAP.get(here or "", ()):
                yield f"{line}: {here} may not import {there} ({target})"
            if any(part.startswith("_") for part in target.split(".")[1:]) and there not in (
                "version",
                "lazy",
            ):
                yield f"{line}: {target} is private to {there}; import from the layer"


def foreign_violations(line: int, here: str | None, target: str) -> Iterator[str]:
    top = target.partition(".")[0]
    if top in sys.stdlib_module_names:
        if here in PURE_LAYERS and target not in PURE_MODULES:
            yield f"{line}: {here} does no I/O and may not import {target}"
    elif top not in THIRD_PARTY.get(here or "", ()):
        yield f"{line}: {here} may not import the third-party module {top}"


def purity_violations(module: str, tree: ast.AST) -> Iterator[str]:
    if layer_of(module) not in PURE_LAYERS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in PURE_FORBIDDEN_CALLS:
                yield f"{node.lineno}: {node.func.id}() in a layer without I/O"
            elif ast.unparse(node.func) in PURE_FORBIDDEN_METHODS:
                yield f"{node.lineno}: {ast.unparse(node.func)}() in a layer without I/O"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"{node.lineno}: async code in a layer without I/O"


def declared_names(tree: ast.AST) -> Iterator[str]:
    """The functions, variables and attributes that a file declares."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


@cache
def names_of_layer(layer: str | None) -> frozenset[str]:
    paths = [path for path in FILES if layer_of(module_of(import_path(path))) == layer]
    return frozenset(name for path in paths for name in declared_names(ast.parse(path.read_text(encoding="utf-8"))))


def privacy_violations(name: str, tree: ast.AST) -> Iterator[str]:
    """A private attribute is used by its own object only in `protocol`, and elsewhere in its own layer only."""
    layer = layer_of(module_of(Path(name)))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")):
            continue
        owner = ast.unparse(node.value)
        if owner in ("self", "cls", "clone", "super()") or node.attr in FOREIGN_PRIVATE:
            continue
        if layer == "protocol":
            yield f"{node.lineno}: {owner}.{node.attr} is private to {owner}"
        elif node.attr not in names_of_layer(layer):
            yield f"{node.lineno}: {owner}.{node.attr} is private to another layer than {layer}"


# Files that may call what they look up by a variable name, with the reason.
CALLED_BY_NAME = {
    "jackstay/sync/_derive.py": "derives the blocking API from the async classes",
    "jackstay/client/_prometheus.py": "the classes of a library that is imported on first use",
}


def spelling_violations(name: str, tree: ast.AST) -> Iterator[str]:
    """No attribute is looked up by a name that is put together: neither an editor nor grep could find its uses.

    Fields may be read by the names that their Struct declares; methods may not be called by a name.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        if text in ("getattr", "setattr", "operator.attrgetter", "operator.methodcaller"):
            spelled = node.args[1] if len(node.args) > 1 else None
            if isinstance(spelled, ast.JoinedStr | ast.BinOp):
                yield f"{node.lineno}: the name of an attribute is put together: {ast.unparse(spelled)}"
        elif re.match(r"getattr\([^,]+, (?!['\"])", text) is not None and name not in CALLED_BY_NAME:
            yield f"{node.lineno}: a method is called by a name that is put together: {text}"


def shape_violations(name: str, source: str, tree: ast.Module) -> Iterator[str]:
    """A docstring first, names with a meaning, and sizes below the limits."""
    if not (ast.get_docstring(tree) or "").strip():
        yield "1: the file does not begin with a docstring"
    for part in Path(name).with_suffix("").parts:
        words = FORBIDDEN_NAMES.intersection(part.strip("_").split("_"))
        if words and name not in KEPT_NAMES:
            yield f"1: the name {part} has no meaning"
    if source.count("\n") > FILE_LINES and name not in LARGE:
        yield f"1: {source.count(chr(10))} lines; split it, or give the reason in LARGE"
    for function, lines in functions(tree):
        if lines > FUNCTION_LINES and f"{name}:{function}" not in LARGE:
            yield f"1: {function} has {lines} lines; split it, or give the reason in LARGE"


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(node, ast.ClassDef):
                yield prefix + node.name, (node.end_lineno or 0) - node.lineno + 1
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def violations(name: str, source: str) -> list[str]:
    """Everything wrong with one source file, given as its path under src and its text."""
    tree = ast.parse(source)
    module = module_of(Path(name))
    found = [*import_violations(module, tree), *purity_violations(module, tree)]
    found += [*privacy_violations(name, tree), *spelling_violations(name, tree)]
    return [*found, *shape_violations(name, source, tree)]


# --- the checks -------------------------------------------------------------------------------------------------------


def test_every_source_file_follows_the_map() -> None:
    paths = [*FILES, *STUBS]
    found = {str(path): violations(str(import_path(path)), path.read_text(encoding="utf-8")) for path in paths}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_every_layer_is_on_the_map() -> None:
    found = {layer_of(module_of(import_path(path))) for path in FILES} - {None}
    assert found <= MAP.keys(), f"not on the map: {sorted(map(str, found - MAP.keys()))}"


def test_no_layer_imports_one_above_it() -> None:
    order = list(MAP)
    for layer, below in MAP.items():
        assert set(below) <= MAP.keys()
        assert all(order.index(other) < order.index(layer) for other in below), layer
    for left, right in (("client", "server"), ("apcore_mcp", "procontext")):
        assert right not in MAP[left]
        assert left not in MAP[right]


def test_every_reason_for_size_is_still_needed() -> None:
    oversized = set()
    for path in FILES:
        name, source = str(import_path(path)), path.read_text(encoding="utf-8")
        if source.count("\n") > FILE_LINES:
            oversized.add(name)
        oversized |= {f"{name}:{f}" for f, n in functions(ast.parse(source)) if n > FUNCTION_LINES}
    assert set(LARGE) <= oversized, f"no longer large: {sorted(set(LARGE) - oversized)}"
    assert all(reason.strip() for reason in LARGE.values())


def test_the_features_that_are_counted_apart_are_in_the_source() -> None:
    source = SOURCES["jackstay"] / "jackstay"
    files = {str(path.relative_to(source)): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    sizes = count_source.measure(files, count_source.later_rows())  # exits for a row that is not in the source
    assert sum(size["lines"] for size in sizes.values()) == sum(len(text.splitlines()) for text in files.values())


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in FILES:
        relative = import_path(path)
        if relative.name in ("__init__.py", "__main__.py"):
            continue
        stem = relative.stem.lstrip("_")
        tests = SOURCES[relative.parts[0]].parent / "tests"
        mirror = tests.joinpath(*relative.parts[1:]).with_name(f"test_{stem}.py")
        if not mirror.exists() and not (ROOT / TESTED_ELSEWHERE.get(str(relative), "absent")).exists():
            missing.append(f"{relative} -> {mirror.relative_to(ROOT)}")
    assert missing == []


# --- the proof that the checks can fail -------------------------------------------------------------------------------

CLOCKS_AND_DOORS = [
    "asyncio",
    "contextvars",
    "ctypes",
    "glob",
    "http.client",
    "importlib",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib.request",
    "uuid",
    "warnings",
]

# (file, line of source, part of the message)
PLANTED = [
    *[("jackstay/protocol/_x.py", f"import {m}", f"may not import {m}") for m in CLOCKS_AND_DOORS],
    *[("jackstay/types.py", f"import {m}", f"may not import {m}") for m in CLOCKS_AND_DOORS],
    *[("jackstay/errors.py", f"from {m} import x", f"may not import {m}") for m in CLOCKS_AND_DOORS],
    ("jackstay/protocol/_x.py", "def f():\n    import time", "may not import time"),
    ("jackstay/protocol/_x.py", "if TYPE_CHECKING:\n    import asyncio", "may not import asyncio"),
    ("jackstay/protocol/_x.py", "import pydantic", "third-party module pydantic"),
    ("jackstay/errors.py", "import msgspec", "third-party module msgspec"),
    ("jackstay/extras.py", "import httpx", "third-party module httpx"),
    ("jackstay/protocol/_x.py", "f = open('x')", "open() in a layer without I/O"),
    ("jackstay/protocol/_x.py", "import codecs\nf = codecs.open('x')", "codecs.open() in a layer without I/O"),
    (
        "jackstay/protocol/_x.py",
        "from datetime import datetime\nx = datetime.now()",
        "datetime.now() in a layer without",
    ),
    ("jackstay/protocol/_x.py", "def f():\n    print('x')", "print() in a layer without I/O"),
    ("jackstay/protocol/_x.py", "async def f(): ...", "async code"),
    ("jackstay/errors.py", "from jackstay.types import Tool", "errors may not import types"),
    ("jackstay/types.py", "from jackstay.protocol import draw", "types may not import protocol"),
    ("jackstay/types/_x.py", "import jackstay.protocol", "types may not import protocol"),
    (
        "jackstay/protocol/_x.py",
        "from jackstay.transport import Transport",
        "protocol may not import transport",
    ),
    ("jackstay/protocol/_x.py", "from jackstay.extras import EXTRAS", "protocol may not import extras"),
    ("jackstay/transport/_x.py", "from jackstay.client import Client", "transport may not import client"),
    ("jackstay/client/_x.py", "from jackstay.server import Server", "client may not import server"),
    ("jackstay/client/_x.py", "from jackstay.oauth import OAuth", "client may not import oauth"),
    ("jackstay/oauth/_x.py", "from jackstay.client import Client", "oauth may not import client"),
    ("jackstay/transport/_x.py", "from jackstay.oauth import OAuth", "transport may not import oauth"),
    ("jackstay/server/_x.py", "from jackstay.client import Client", "server may not import client"),
    ("jackstay/server/_x.py", "from jackstay.cli import main", "server may not import cli"),
    ("jackstay/server/_x.py", "from apcore_mcp import serve", "server may not import apcore_mcp"),
    ("jackstay/testing/_x.py", "from jackstay.client import Client", "testing may not import client"),
    ("apcore_mcp/x.py", "from procontext import app", "apcore_mcp may not import procontext"),
    ("procontext/x.py", "import apcore_mcp.cli", "procontext may not import apcore_mcp"),
    ("jackstay/client/_x.py", "from jackstay.protocol.wire._lines import Lines", "private to protocol"),
    ("jackstay/client/_x.py", "import jackstay.protocol.wire._lines", "private to protocol"),
    ("apcore_mcp/x.py", "from jackstay.server._dispatch import D", "private to server"),
    ("jackstay/cli/_x.py", "from jackstay import McpError, nonsense", "imports the front"),
    ("jackstay/protocol/_x.py", "import jackstay", "imports the front"),
    ("jackstay/errors.py", "from jackstay import cli", "errors may not import cli"),
    ("jackstay/protocol/_x.py", "from . import _lines", "relative import"),
    ("jackstay/client/_x.py", "from ..protocol import draw", "relative import"),
    ("jackstay/protocol/server/_x.py", "def f(c):\n    return c.outgoing._queue", "is private to c.outgoing"),
    ("jackstay/proxy/_x.py", "def f(server):\n    server._catalogue_of_nobody()", "is private to another layer"),
    ("jackstay/client/_x.py", 'def f(c, word):\n    getattr(c, f"_{word}")()', "is put together"),
    ("jackstay/client/_x.py", 'def f(c, word):\n    getattr(c, "on_" + word)()', "is put together"),
    ("jackstay/client/_x.py", 'def f(c, word):\n    name = f"_{word}"\n    getattr(c, name)()', "is put together"),
    ("jackstay/server/_x.py", "def f(c, word):\n    getattr(c, word)()", "is put together"),
    ("jackstay/protocol/client/_x.py", "def f(c):\n    c.calls._queue = 1", "c.calls._queue is private to c.calls"),
    ("jackstay/protocol/client/_x.py", "def f(self):\n    self.calls._flush()", "is private to self.calls"),
    ("jackstay/client/_utils.py", "", "has no meaning"),
    ("jackstay/client/session_manager.py", "", "has no meaning"),
    ("jackstay/shared/_x.py", "", "has no meaning"),
    ("jackstay/client/_x.py", "\n" * 600, "601 lines"),
    ("jackstay/client/_x.py", "class A:\n    def f(self):\n" + "        1\n" * 60, "A.f has 61 lines"),
]


def test_a_planted_violation_is_found() -> None:
    for name, source, message in PLANTED:
        found = violations(name, f'"""Docstring."""\n{source}')
        assert any(message in violation for violation in found), (name, source, found)


def test_a_file_without_a_docstring_is_found() -> None:
    for source in ("", "import enum", "# a comment\nx = 1", '""" """'):
        found = violations("jackstay/client/_x.py", source)
        assert any("begin with a docstring" in violation for violation in found), source


# (file, line of source) that the map allows.
ALLOWED = [
    ("jackstay/protocol/_x.py", "import enum\nfrom collections.abc import Iterator\nimport msgspec"),
    (
        "jackstay/protocol/_x.py",
        "from jackstay.protocol.wire._lines import Lines\nfrom jackstay.errors import McpError",
    ),
    (
        "jackstay/protocol/_x.py",
        "from jackstay import __version__\nfrom jackstay._version import __version__",
    ),
    (
        "jackstay/client/_x.py",
        "import asyncio\nfrom jackstay.protocol import draw\nfrom jackstay import errors",
    ),
    ("jackstay/client/_x.py", "from jackstay import McpError"),
    ("jackstay/__main__.py", "from jackstay.cli import main"),
    ("jackstay/__init__.py", "from jackstay.client import connect\nfrom jackstay.server import Server"),
    (
        "apcore_mcp/x.py",
        "import apcore\nfrom jackstay import __version__\nfrom jackstay.server import Server",
    ),
    ("jackstay/client/_x.py", "class A:\n    def f(self):\n" + "        1\n" * 59),
    ("jackstay/client/_x.py", "\n" * 598),
]


def test_what_the_map_allows_is_not_a_violation() -> None:
    for name, source in ALLOWED:
        assert violations(name, f'"""Docstring."""\n{source}') == [], (name, source)
