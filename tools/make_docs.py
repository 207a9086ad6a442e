"""Write the pages that are made from tables: docs/protocol.md, docs/settings.md and docs/errors.md.

`python tools/make_docs.py` writes them; `--check` writes nothing and fails, naming the page, if one would change. What
stands in these pages stands in a table of the source and nowhere else.
"""

import argparse
import inspect
import sys
from pathlib import Path

import msgspec

from jackstay import errors
from jackstay.cli._serve import FLAGS
from jackstay.protocol import METHODS, REVISIONS, Machine, Method, Revision
from jackstay.protocol.client import SETTINGS, Setting, Settings
from jackstay.protocol.drawing import MACHINES, draw
from jackstay.protocol.http import Fact, Sent
from jackstay.protocol.http._verdict import RULES, Rule
from jackstay.server.http import HTTP_OPTIONS, RUN_OPTIONS, HttpOptions, RunOptions

DOCS = Path(__file__).resolve().parent.parent / "docs"

HEAD = "<!-- Made by tools/make_docs.py from the tables in the source. Do not edit: run `make docs`. -->\n\n"

INTRODUCTIONS = {
    "client": "One for each connection that a client opens. A transport is one child process, or one HTTP session.",
    "server": "One for each connection that a server holds, never one for the server.",
    "exchange": "One for each call of a client: a request and its one outcome.",
}


# Defaults that are said in words: they are long, or change with every release.
SHOWN = {"versions": "all five", "client_info": "`jackstay` and its version"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def protocol_page() -> str:
    """Revisions, methods and machines."""
    parts = [
        HEAD,
        "# The protocol, as tables\n\n",
        "What Jackstay speaks, and when. These are the rows that run: `jackstay states` prints the machines from the same ",
        "place, and the tests walk them.\n\n",
        "## Revisions\n\n",
        revisions_table(RULES_OF_ALL),
        "\n### Over HTTP\n\n",
        revisions_table(RULES_OF_HTTP),
        "\nA server speaks all of them at one URL, and 2024-11-05 at its `sse_path`, if it was given one. A client finds out which is spoken: ",
        "it sends `server/discover`; where that is not known, `initialize`; where that is refused, it looks for HTTP+SSE. ",
        "What it makes of a response, whatever was asked; the first row that fits decides:\n\n",
        responses_table(),
        "\nNothing of the user's can have run because of `server/discover`, `initialize`, GET or DELETE: there the answer ",
        "in the last column is always no.\n",
        "\n## Methods and notifications\n\n",
        '`safe` ones may be sent again after a loss with `replay="safe"`. A capability is the receiver\'s for a request, ',
        "the sender's for a notification. `embedded`: from that revision on it travels only inside `inputRequests`. Params and ",
        "results are classes of `jackstay.types`; the states are those of [a server](#server) in which it is served.\n\n",
        methods_tables(),
        "\n## The machines\n\n",
        "In the tables `-` means ignored and counted, and `!` a pair that cannot happen: it raises in tests and is counted ",
        "in production. States that treat an event alike stand in one line.\n",
    ]
    parts.extend(machine_section(machine) for machine in MACHINES.values())
    return "".join(parts)


# What each rule of a revision is about; those of HTTP have a table of their own. A rule without words fails the build.
RULES_OF_ALL = {
    "era": "how a connection begins: with `initialize`, or with what each request says of itself",
    "has_batches": "JSON-RPC arrays of messages",
    "has_server_requests": "a server may send requests to its client; afterwards it asks inside a result",
    "omits_unreadable_id": "an error to a request whose id could not be read has no `id`; before, it is null",
    "has_result_type": "every result says its `resultType`, and lists say how long they hold",
    "has_structured_output": "`structuredContent` and `outputSchema`",
    "resource_not_found": "the code for a resource that does not exist",
}
RULES_OF_HTTP = {
    "has_streamable_http": "one URL for everything; 2024-11-05 has a stream and a URL to post to instead (HTTP+SSE)",
    "has_sessions": "`Mcp-Session-Id`, given by the server in answer to `initialize`, if it keeps sessions",
    "has_version_header": "`MCP-Protocol-Version` on every request after the handshake",
    "has_method_headers": "`Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` beside the body",
    "has_resumable_streams": "events have ids, and a stream is resumed with GET and `Last-Event-ID`",
    "has_polling": "a server may close a stream, and the client comes back for the rest after `retry`",
    "disconnect_cancels": "closing a response cancels its request; before, it means nothing",
}


def revisions_table(rules: dict[str, str]) -> str:
    """One column a revision, one row a rule, and what it is about."""
    known = {field.name for field in msgspec.structs.fields(Revision)} - {"name"}
    missing = known.symmetric_difference(RULES_OF_ALL | RULES_OF_HTTP)
    if missing:
        raise SystemExit(f"rules of a revision without words, or words without a rule: {sorted(missing)}")
    rows = [
        [name.replace("_", " "), *(revision_cell(row, name) for row in REVISIONS.values()), words]
        for name, words in rules.items()
    ]
    return table(["", *REVISIONS, "what it is about"], rows)


def responses_table() -> str:
    """One row for each rule by which a client judges a response, in the order in which they are tried."""
    return table(
        ["in answer to", "status", "if", "then", "may it have run?"], [response_row(rule) for rule in RULES]
    )


def response_row(rule: Rule) -> list[str]:
    """One row of the responses table."""
    facts = [fact.value for fact in Fact if fact in rule.needs]
    facts += [f"not: {fact.value}" for fact in Fact if fact in rule.lacks]
    sent = (
        "anything"
        if rule.sent == frozenset(Sent)
        else "; ".join(one.value for one in Sent if one in rule.sent)
    )
    ran = {True: "yes", False: "no", None: "the answer says"}[rule.may_have_run]
    return [sent, statuses(rule.statuses), "; ".join(facts) or "-", rule.next.value, ran]


def statuses(numbers: frozenset[int]) -> str:
    """Numbers as people write them: 4xx, 200 to 299 as 2xx, single ones."""
    if len(numbers) >= 1000:
        return "any"
    hundreds = [h for h in range(10) if numbers >= set(range(100 * h, 100 * h + 100))]
    rest = sorted(number for number in numbers if number // 100 not in hundreds)
    return ", ".join([*(f"{h}xx" for h in hundreds), *map(str, rest)])


def revision_cell(revision: Revision, name: str) -> str:
    """What a revision says about one rule."""
    value = getattr(revision, name)
    if isinstance(value, bool):
        return "yes" if value else "-"
    return str(getattr(value, "value", value))


def methods_tables() -> str:
    """One row a method, one table for each kind of it."""
    parts = []
    for title, is_request, sender in KINDS:
        head = [
            "name",
            "params, result" if is_request else "params",
            "capability",
            "revisions",
            "states",
            "notes",
        ]
        rows = [
            method_row(each)
            for each in METHODS.values()
            if each.is_request == is_request and each.sender.value == sender
        ]
        parts.append(f"### {title}\n\n{table(head, rows)}")
    return "\n".join(parts)


KINDS = [
    ("Requests of the client", True, "client"),
    ("Requests of the server", True, "server"),
    ("Requests of both", True, "both"),
    ("Notifications of the client", False, "client"),
    ("Notifications of the server", False, "server"),
    ("Notifications of both", False, "both"),
]


def method_row(method: Method) -> list[str]:
    """One row of a table of methods."""
    notes = [
        "safe" if method.is_safe and method.is_request else "",
        "cacheable" if method.is_cacheable else "",
        "may ask for input" if method.may_ask else "",
        f"embedded since {method.is_embedded_since}" if method.is_embedded_since else "",
        f"from the client until {method.client_until}" if method.client_until != max(REVISIONS) else "",
    ]
    revisions = method.revisions
    span = (
        "all"
        if revisions == tuple(REVISIONS)
        else revisions[0]
        if len(revisions) == 1
        else f"{revisions[0]} to {revisions[-1]}"
    )
    return [
        f"`{method.name}`",
        f"`{method.params}`, `{method.result}`" if method.result else f"`{method.params}`",
        f"`{method.capability}`" if method.capability else "-",
        span,
        ", ".join(method.states) or "-",
        ", ".join(note for note in notes if note) or "-",
    ]


def machine_section(machine: Machine) -> str:
    """A machine: its diagram, its events in words, its table."""
    events = table(["event", "what happened"], [[name, said] for name, said in machine.events.items()])
    return (
        f"\n### {machine.name}\n\n{INTRODUCTIONS[machine.name]}\n\n"
        f"```mermaid\n{draw(machine, 'mermaid')}```\n\n{draw(machine, 'table')}\n{events}"
    )


def settings_page() -> str:
    """Every setting and option with its default, range and meaning."""
    flags = {"host": "--http", "port": "--http"} | {row.option: row.flag for row in FLAGS}
    head = ["option", "flag", "default", "may be", "meaning"]
    return (
        HEAD + "# Settings\n\n"
        "Every one is checked when it is given: a bad value is refused by name, with what it may be. Times are in seconds.\n\n"
        "- [A client connection](#a-client-connection): `connect()`\n"
        "- [An HTTP endpoint](#an-http-endpoint): `server.asgi()`, and with the next ones\n"
        '- [A process that serves HTTP](#a-process-that-serves-http): `server.run(transport="http")`\n'
        "- Elsewhere: [`Server()`](server.md#options), [`http()`](client.md#over-http), [`OAuth()`](oauth.md#people), "
        "[a single call](client.md#calling)\n\n"
        "## A client connection\n\n"
        "Keywords of `connect()`.\n\n"
        + table(["setting", "default", "may be", "meaning"], option_rows(SETTINGS, Settings()))
        + "\nWith `request_timeout` and `max_timeout` both None a call to a server that never answers never ends: set one of "
        "them.\n\n"
        "## An HTTP endpoint\n\n"
        'Keywords of `server.asgi()` and of `server.run(transport="http")`. The flags are of the command `serve`.\n\n'
        + table(head, option_rows(HTTP_OPTIONS, HttpOptions(), flags))
        + "\n## A process that serves HTTP\n\n"
        'Keywords of `server.run(transport="http")` alone; [deployment.md](deployment.md) says how they go together.\n\n'
        + table(head, option_rows(RUN_OPTIONS, RunOptions(), flags))
    )


def option_rows(
    rows: dict[str, Setting], defaults: msgspec.Struct, flags: dict[str, str] | None = None
) -> list[list[str]]:
    """A line for each option: its name, with `flags` what the command calls it, the default, what it may be, what it means."""
    lines = []
    for row in rows.values():
        default = getattr(defaults, row.name)
        shown = SHOWN.get(row.name) or f"`{as_python(default)}`"
        flag = [] if flags is None else [f"`{flags[row.name]}`" if row.name in flags else "-"]
        lines.append([f"`{row.name}`", *flag, shown, row.range, row.meaning])
    return lines


def as_python(value: object) -> str:
    """A default as it is written in a program; text and lists as JSON has them, which is the same."""
    return str(value) if value is None or isinstance(value, bool) else msgspec.json.encode(value).decode()


def errors_page() -> str:
    """Every error class: what it means, and what may be assumed after it."""
    classes = [
        value
        for name in errors.__all__
        if inspect.isclass(value := getattr(errors, name)) and issubclass(value, errors.McpError)
    ]
    parts = [
        HEAD,
        "# Errors\n\n",
        "Every error is an `McpError` and answers one question: may the call have run? `may_have_run` is true, false, or ",
        "None where the server decides. `retryable` is true only where it surely did not run and the cause is passing. ",
        "`str(error)` is a whole sentence; `type`, `message`, `details`, `code`, `server_error`, `method`, `request_id` and ",
        "`retry_in` are for programs. All of them pickle.\n\n",
        "```text\n",
        tree(),
        "```\n\n",
        "## What may I assume after this error?\n\n",
        table(
            ["error", "`type`", "may it have run?", "again?"],
            [[f"`{c}`", t if " " in t else f"`{t}`", m, a] for c, t, m, a in ASSUMPTIONS],
        ),
        "\nErrors of single parts stand on their pages: `AuthorizationError`, a `TransportError`, of ",
        "[signing in](oauth.md#what-goes-wrong); `ToolError`, `ResourceNotFoundError` and `InsufficientScopeError`, which a ",
        "server's functions raise, of [serving](server.md#saying-no).\n\n",
        "What follows is every class, by name.\n",
    ]
    parts.extend(f"\n## {cls.__name__}\n\n{inspect.cleandoc(cls.__doc__ or '')}\n" for cls in classes)
    return "".join(parts)


def tree() -> str:
    """The tree as its docstring draws it."""
    lines = inspect.cleandoc(errors.__doc__ or "").splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip() == "McpError")
    end = next(index for index in range(start, len(lines)) if not lines[index].strip())
    return "".join(line.removeprefix("    ") + "\n" for line in lines[start:end])


# Class, type, may_have_run, retryable: `packages/jackstay/tests/test_errors.py` checks each against the class itself.
ASSUMPTIONS = [
    ("UsageError", "usage", "no", "not before you changed something"),
    ("StateError", "state", "no", "yes, once it is ready"),
    ("BackpressureError", "transport", "no", "yes"),
    ("TransportError", "transport", "no", "yes, unless `permanent`"),
    ("SessionLostError", "transport", "no", "yes"),
    ("OutcomeUnknownError", "transport", "yes", "only if doing it twice is harmless"),
    ("ResetError", "reset", "yes, if it was sent", "if it was not sent"),
    ("TimeoutError", "timeout", "yes, if it was sent", "if it was not sent"),
    ("JsonRpcError", "jsonrpc", "the server decides", "read its code"),
    ("ProtocolError", "protocol", "yes, if it was sent", "no"),
    ("FrameTooLargeError", "protocol", "yes, if it was sent", "no"),
    ("CapabilityError", "capability_not_supported", "no", "no"),
    ("ShutdownError", "shutdown", "yes, if it was sent", "no"),
    ("ClosedError", "its reason's", "yes, if it was sent", "no: open a new connection"),
]


PAGES = {"protocol.md": protocol_page, "settings.md": settings_page, "errors.md": errors_page}


def main() -> int:
    """Write the pages, or with `--check` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if page.exists() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            page.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
