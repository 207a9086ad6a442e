"""Compare the size of the runtime with an earlier commit, at equal features, in lines, lines of code and tokens.

Files and functions of later features (`LATER`) are counted apart, and so are stubs: most public names are in generated
stubs now, and were in `__init__.py` before. What later features and corrections added to shared functions is counted by
commit (`COMMITS`) and subtracted in a line of its own. Both are formatted alike.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "packages/jackstay/src/jackstay"

# The commit before the package was renamed.
BASE = "7a6ba43"

# By feature: paths (a directory ends with a slash), and "path: names of classes, functions and methods".
LATER: dict[str, tuple[str, ...]] = {
    "agent frameworks": ("agents/",),
    "inspector": ("inspector/", "cli/_inspect.py", "testing/_recorder.py: RecordingSink"),
    "OpenAPI": ("openapi/", "server/_openapi.py", "server/_server.py: Server.from_openapi Server.from_fastapi"),
    "Redis and other shared backends": (
        "redis/",
        "server/_backend.py",
        "server/_changes.py: WorkerBus WorkerListener MemoryChanges.flush MemoryChanges.join MemoryChanges.send"
        " MemoryChanges.is_gone BusLink.mailboxes",
        "server/http/_orphans.py",
        "server/http/_peer_workers.py",
        "server/http/_session_store.py: SessionChange SessionStore.change MemorySessionStore.change",
        "server/http/_sessions.py: Sessions._notify_workers Sessions.receive_published _confirms",
        "server/http/_session.py: Session.adopt_change Session.receive_forwarded _no_bus_error",
        "server/http/_app.py: App.backend _worker_bus",
        "testing/_clock.py: ClockLoop.run_in_executor ClockLoop.waits_for_threads",
        "testing/backend_suite.py",
        "testing/store_suites.py: SessionStoreSuite.test_a_change_replaces_only_what_it_names"
        " SessionStoreSuite.test_simultaneous_changes_are_all_stored",
        "cli/_serve.py: add_backend_argument use_backend",
    ),
    "tasks": (
        "client/_task_log.py",
        "client/_tasks.py",
        "server/_task_listeners.py",
        "server/_task_process.py",
        "server/_task_sqlite.py",
        "server/_task_store.py",
        "server/_task_worker.py",
        "server/_tasks.py",
        "server/_tools.py: ToolEntry.is_repeatable _check_task",
        "server/_context.py: Context.background",
        "sync/_client.py: TaskHandle Tasks",
        "testing/_guarded.py: with_two",
        "testing/task_store_suite.py",
    ),
    "extensions, apps and skills": (
        "apps.py",
        "client/_apps.py",
        "client/_skills.py",
        "extensions.py",
        "server/_apps.py",
        "server/_context.py: Context.shows_apps",
        "server/_dispatch.py: Dispatch.intercept",
        "server/_extensions.py",
        "server/_server.py: Server.add_extensions Server._extend_for",
        "server/_skills.py",
        "skills.py",
        "sync/_client.py: Skills Apps",
    ),
    "mounted servers, transforms and the gateway": (
        "cli/_gateway.py",
        "proxy/_gateway.py",
        "proxy/_gateway_app.py",
        "proxy/_gateway_config.py",
        "proxy/_mirror.py",
        "proxy/_mount.py",
        "proxy/_proxy.py: Proxy._make_mount Proxy._mirror_lists Proxy._notify_mounts",
        "server/_catalogue.py: Entries.reserve Entries.swap Catalogue.reserve Catalogue.swap Catalogue.entries"
        " Catalogue.is_taken",
        "server/_dispatch.py: Dispatch.serve_mounted",
        "server/_mount.py",
        "server/_mounted_entries.py",
        "server/_mounted_uris.py",
        "server/_mounts.py",
        "client/_fleet.py: fleet_parts",
        "server/_server.py: Server.mount Server._make_mount",
        "server/_transforms.py",
    ),
    "visibility, and a search of tools": (
        "server/_catalogue.py: Catalogue.set_enabled Catalogue.is_disabled",
        "server/_entries.py: check_tags _strings",
        "server/_search.py",
        "server/_server.py: Server.enable Server.disable Server.visible Server._add_rules Server.search_tools"
        " Server._make_views",
        "server/_visibility.py",
    ),
    "middleware with hooks, and metrics of servers": (
        "server/_hooks.py",
        "server/_metrics.py",
        "server/_middleware.py",
        "server/_tracing.py: _make_histogram _is_registered",
    ),
    "dependencies and lifespan": (
        "server/_context.py: Context._dependencies Context._run_in_thread",
        "server/_depends.py",
        "server/_dispatch.py: Dispatch.dependencies",
        "server/_functions.py: Dependency Function._inject",
        "server/_lifespan.py",
        "server/_server.py: Server._add_lifespan Server.override Server._close_dependencies",
    ),
    "resources from files, and RFC 6570 templates": (
        "server/_files.py",
        "server/_server.py: Server.add_resource",
        "server/_uris.py: UriTemplate._match_query _split_query",
        "types/_uri_templates.py",
    ),
    "servers as objects: calls and connections in the process": (
        "server/_in_process.py",
        "server/_server.py: Server.call_tool Server.list_tools",
        "client/_connect.py: as_target _target_of_text",
        "transport/_memory.py: Servable InProcessTarget MemoryTransport.serve_with MemoryTransport._served",
    ),
    "more of the server API": (
        "errors.py: UnexpectedOptionError",
        "_signatures.py",
        "server/_content.py: File",
        "server/_context.py: HttpRequest ClientDescription Context.request Context.client Context.debug Context.info"
        " Context.warning",
        "server/_portable_schema.py",
        "server/_tools.py: _check_timeout _decode_annotations",
    ),
    "typed results": (
        "errors.py: ToolCallError",
        "types/_data.py",
        "types/_tool_results.py: CallToolResult._repr_html_ CallToolResult.with_reader CallToolResult.data_as",
    ),
    "own HTTP/1.1 server": (
        "server/_parked_task.py",
        "server/http/_asgi.py: AsgiRequest _StartedAwaitable",
        "server/http/_exchange.py",
        "server/http/_http1.py",
        "server/http/_listening.py",
    ),
    "own HTTP/1.1 client": (
        "transport/http/_connecting.py",
        "transport/http/_http1.py",
        "transport/http/_pool.py",
    ),
    "DPoP and workload identities": (
        "oauth/_authorizer.py: TokenAuthorizer.note_response TokenAuthorizer.requires_nonce _with_dpop",
        "oauth/_dpop.py",
        "oauth/_workload.py",
        "transport/http/_sending.py: Sender._note_response Sender._requires_nonce",
        "transport/http/_contract.py: Prover",
    ),
    "more commands": (
        "cli/_bundle.py",
        "cli/_complete.py",
        "cli/_dev.py",
        "cli/_discover.py",
        "cli/_generate.py",
        "cli/_info.py",
        "cli/_install.py",
        "cli/_logout.py",
        "cli/_pack.py",
        "cli/_schema_types.py",
        "cli/_typed_client.py",
        "cli/_uninstall.py",
        "cli/_user_input.py",
        "oauth/_authorizer.py: TokenAuthorizer.sign_out",
        "shell/_config_text.py",
        "shell/_hosts.py",
        "shell/_entry_point.py: other_distribution",
    ),
    # The earlier commit had `report()` and `clear()` of the status line, and tables without wrapped columns.
    "status line, wide characters, prompts at the terminal": (
        "cli/_call.py: _print",
        "cli/_prompts.py: _get",
        "cli/_target.py: parse_environment",
        "cli/_tools.py: _short_type",
        "cli/_values.py: pairs typed_text",
        "shell/_screen.py: display_width wrap print_error paint_json _wrapped",
        "shell/_status_line.py: _note_output process_age output terminal_width erase_status erase_before_exit"
        " hidden_status StatusLine.__init__ StatusLine.__enter__ StatusLine.__exit__ StatusLine.erase StatusLine._stop"
        " StatusLine._draw_until StatusLine._tick StatusLine._show StatusLine._write _printable _fit",
    ),
}


# By feature: commits that added to shared functions. Counted are the lines that a commit added there in balance, and at
# most those that were still as it wrote them at `COUNTED_AT`: what was removed or rewritten since is not subtracted.
COUNTED_AT = "8ea92b35"
COMMITS = {
    "tasks": "6a67f408 99acdfb1 5fcd183c e11d95d3 c55956ff",
    "sessions of several processes, and shared backends": (
        "2e9dc695 175acf1b a4b3ac92 b66900ab f0062868 99381fe1 e07b4f5c 3efc7813"
    ),
    "hung servers, and servers that fail at once": "b9aa475b 05ae3c61 41e85f40",
    "commands, prompts at the terminal, the inspector": (
        "073fde08 80eaedf6 9ddf2555 9da42f34 d7012dbf e08a3d59 c5d378c5 0721893a"
    ),
    "typed results and errors of failed tools": "b5af4ebd 54778bed e08c7760 6e56b186",
    "options of tools, resources and templates": "599b27e0 36bccf63 55b9c73d 84431f32 e2d50c25",
    "signatures that help() prints": "87f0d262",
    "mounted servers, transforms and the gateway": "53aed9be c0110b01 4117ad79 b4de4722 12417abc 8abf3a65 da0d8d69",
    "lifespan, dependencies, hooks, visibility, metrics": (
        "1f30265c 1e18159c bff1b509 6fd9fee9 1412056c e6397023 712e345c"
    ),
    "agent frameworks, skills, apps, OpenAPI": "e82c26a1 f03b96fe 4b18065f e9cdf9fa e25728c9",
    "every target of connect(), servers as objects": "b612cc64 6bd0838f",
    "DPoP and workload identities": "60848c71 74a01adf",
    "limits of requests, oversize requests, lost responses": (
        "a49848e3 873b3b79 ae4bed6a 1b95deb2 950acd7d fd26b6e5 b0966253"
    ),
}


class Size(Counter[str]):
    """Lines; lines of code, which are without blank lines, comments and docstrings; and the tokens of the code.

    Writing a call on one line instead of several saves lines and no tokens.
    """


def code_tokens(tree: ast.Module, text: str) -> list[range]:
    """Return the lines of each token of code."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    return [
        range(token.start[0], token.end[0] + 1)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped and token.start[0] not in docstrings
    ]


def code_lines(tree: ast.Module, text: str) -> set[int]:
    """Return the numbers of the lines of code."""
    return {line for span in code_tokens(tree, text) for line in span}


def spans(tree: ast.Module) -> Iterator[tuple[str, range]]:
    """Yield the classes, functions and methods of a module, each with its lines."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else []
        for found, prefix in ((node, ""), *((each, f"{getattr(node, 'name', '')}.") for each in inner)):
            if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                begin = min([found.lineno, *(each.lineno for each in found.decorator_list)])
                yield prefix + found.name, range(begin, (found.end_lineno or begin) + 1)


def measure(files: dict[str, str], later: dict[str, str]) -> dict[tuple[str, str], Size]:
    """Return the sizes by package and group: "equal", the name of a later feature, or "stubs".

    Raises SystemExit for a row of `later` that is not in the source.
    """
    sizes: dict[tuple[str, str], Size] = {}
    unused = set(later)
    for path, text in files.items():
        package = path.partition("/")[0] if "/" in path else "(top)"
        tree = ast.parse(text)
        tokens, lines = code_tokens(tree, text), set(range(1, len(text.splitlines()) + 1))
        code = {line for span in tokens for line in span}
        groups: list[tuple[str, set[int]]] = []
        for key in (path, f"{path.partition('/')[0]}/"):
            if key in later:
                unused.discard(key)
                groups = [(later[key], lines)]
        if path.endswith(".pyi"):
            groups = [("stubs", lines)]
        if not groups:
            for name, span in spans(tree):
                key = f"{path}: {name}"
                if key in later:
                    unused.discard(key)
                    groups.append((later[key], set(span)))
            groups.append(("equal", lines.difference(*(found for _, found in groups))))
        for group, found in groups:
            size = sizes.setdefault((package, group), Size())
            size.update(code=len(code & found), lines=len(found), tokens=sum(span.start in found for span in tokens))
    if unused:
        sys.exit("not in the source: " + ", ".join(sorted(unused)))
    return sizes


@cache
def later_rows() -> dict[str, str]:
    """Return the rows of `LATER` with one path or name each, and their features."""
    rows: dict[str, str] = {}
    for feature, found in LATER.items():
        for row in found:
            path, _, names = row.partition(": ")
            rows.update({f"{path}: {name}": feature for name in names.split()} if names else {path: feature})
    return rows


def equal_code(path: str, text: str) -> set[int]:
    """Return the numbers of the lines of code that belong to no file or function of `LATER`."""
    later = later_rows()
    if path.endswith(".pyi") or path in later or f"{path.partition('/')[0]}/" in later:
        return set()
    tree = ast.parse(text)
    code = code_lines(tree, text)
    for name, span in spans(tree):
        if f"{path}: {name}" in later:
            code.difference_update(span)
    return code


def git(*arguments: str) -> str:
    """Return what a command of git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def balance(commit: str) -> int:
    """Return how many lines of code a commit added, less those removed, without what is listed in `LATER`."""
    lines = 0
    for row in git("diff-tree", "-r", "-M", "--no-commit-id", "--raw", commit).splitlines():
        fields, *paths = row.split("\t")
        blobs = fields.split()[2:4]
        for sign, blob, path in ((-1, blobs[0], paths[0]), (1, blobs[1], paths[-1])):
            _, is_source, name = path.partition("src/jackstay/")
            if is_source and name.endswith(".py") and blob.strip("0"):
                lines += sign * len(equal_code(name, git("cat-file", "blob", blob)))
    return lines


def added_to_shared() -> dict[str, int]:
    """Return the lines of code that the features of `COMMITS` added to shared functions."""
    kept: Counter[str] = Counter()
    for name, text in read_commit(COUNTED_AT, SOURCE).items():
        if code := equal_code(name, text):
            authors = git("blame", "-s", "-w", COUNTED_AT, "--", f"{SOURCE}/{name}").splitlines()
            kept.update(line[:8] for number, line in enumerate(authors, 1) if number in code)
    return {
        feature: sum(min(balance(commit), kept[commit]) for commit in commits.split())
        for feature, commits in COMMITS.items()
    }


def runtime_of(commit: str) -> str:
    """Return the directory of the runtime in a commit before the rename: the package in `src/` of neither product."""
    command = ["git", "ls-tree", "--name-only", commit, "src/"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return next(path for path in found if path not in ("src/apcore_mcp", "src/procontext"))


def read_commit(commit: str, source: str) -> dict[str, str]:
    """Return the Python files of a commit below a directory, by their path there."""
    packed = subprocess.run(["git", "archive", commit, source], cwd=ROOT, check=True, capture_output=True).stdout
    files: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            found = archive.extractfile(member)
            if found is not None and member.name.endswith((".py", ".pyi")):
                files[member.name.removeprefix(f"{source}/")] = found.read().decode()
    return files


def formatted(files: dict[str, str]) -> dict[str, str]:
    """Return the files with lines of one length, broken only where they are too long, so that layout does not count."""
    rules = [
        "--isolated",
        "--line-length=120",
        "--target-version=py311",
        "--config=format.skip-magic-trailing-comma=true",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *rules, folder], check=True)
        return {path: (Path(folder) / path).read_text() for path in files}


def main() -> None:
    """Print the sizes by package, those of later features, and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", default=BASE, help="the earlier commit (%(default)s)")
    parser.add_argument("--base-source", help="its source (default: the runtime in src/, as of the default commit)")
    arguments = parser.parse_args()
    here = ROOT / SOURCE
    now = {
        str(path.relative_to(here)): path.read_text() for path in sorted(here.rglob("*.py*")) if path.suffix != ".pyc"
    }
    sizes = measure(
        formatted({path: text for path, text in now.items() if path.endswith((".py", ".pyi"))}), later_rows()
    )
    base = measure(formatted(read_commit(arguments.base, arguments.base_source or runtime_of(arguments.base))), {})

    print(
        f"{'equal features':<16}{'base: code':>12}{'lines':>8}{'now: code':>12}{'lines':>8}{'change: code':>16}", end=""
    )
    print(f"{'lines':>10}")
    total = Size(), Size()
    for package in sorted({package for package, group in (*base, *sizes) if group == "equal"}):
        before, after = base.get((package, "equal"), Size()), sizes.get((package, "equal"), Size())
        total[0].update(before)
        total[1].update(after)
        print(row(package, before, after))
    print(row("total", *total))
    added = added_to_shared()
    total[1]["tokens"] -= round(sum(added.values()) * total[1]["tokens"] / total[1]["code"])
    total[1]["code"] -= sum(added.values())
    print(row("less additions", total[0], total[1]).rstrip().rpartition(" ")[0])
    print(f"tokens, less additions: {total[0]['tokens']:,}, now {total[1]['tokens']:,}", end="")
    print(f" ({total[1]['tokens'] / total[0]['tokens'] - 1:+.1%})")

    print(f"\n{'counted apart':<60}{'code':>8}{'lines':>8}")
    apart: dict[str, Size] = {}
    for (_, group), size in sizes.items():
        if group != "equal":
            apart.setdefault(group, Size()).update(size)
    for group in (*LATER, "stubs"):
        print(f"{group:<60}{apart[group]['code']:>8,}{apart[group]['lines']:>8,}")
    print("\nadded to shared functions")
    for feature, lines in added.items():
        print(f"{feature:<60}{lines:>8,}")


def row(name: str, before: Size, after: Size) -> str:
    """Return one line of the table of equal features."""
    change = ["", ""]
    if before["code"]:
        change = [f"{after[what] / before[what] - 1:+.1%}" for what in ("code", "lines")]
    return (
        f"{name:<16}{before['code']:>12,}{before['lines']:>8,}{after['code']:>12,}{after['lines']:>8,}"
        f"{change[0]:>16}{change[1]:>10}"
    )


if __name__ == "__main__":
    main()
