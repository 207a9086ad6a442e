"""docs/messages.md pins every message; tests/test_docs.py fails if it is out of date."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import list_messages

ROOT = Path(__file__).parents[1]
SOURCE = """
def f(name, count):
    raise ValueError(f"unknown name {name!r}; use {', '.join(count)}")
    raise UsageError("port must be positive" if count else f"no port for {name}")
    raise errors.UsageError("too many: " + str(count))
    raise KeyError(name)
    logger.warning("%s was lost", name)
    print("not a message")
"""


def test_texts_of_exceptions_and_log_records_are_found() -> None:
    found = {(message.kind, message.text) for message in list_messages.messages("m", SOURCE)}
    assert found == {
        ("ValueError", "unknown name {name}; use {', '.join(count)}"),
        ("UsageError", "port must be positive | no port for {name}"),
        ("UsageError", "too many: {str(count)}"),
        ("log, warning", "%s was lost"),
    }


def test_the_page_has_every_message_of_every_package_once() -> None:
    messages = list_messages.collect(sorted(ROOT.glob("packages/*/src")))
    assert len(messages) == len(set(messages)) > 600
    page = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    assert page.endswith(list_messages.page(messages))
    assert {message.module.split(".")[0] for message in messages} == {"jackstay", "apcore_mcp", "procontext"}
