"""How what an author registers becomes an entry, and what is loaded for it, seen in a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jackstay.errors import UsageError
from jackstay.server._registration import (
    make_completion,
    make_prompt,
    make_ready_tool,
    make_resource,
    make_tool,
)
from jackstay.types import PromptReference, ResourceTemplateReference

MAKERS = {"_tools", "_resources", "_prompts", "_completions", "_functions"}

# What an author writes -> which of the makers are loaded by then.
STEPS = {
    "": set(),
    "server = Server('s')": set(),
    "server = Server('s'); server.tool(len_of)": {"_tools", "_functions"},
    "server = Server('s'); server.prompt(len_of)": {"_prompts", "_functions"},
    "server = Server('s'); server.resource('a://b')(nothing)": {"_resources", "_functions"},
    "server = Server('s'); server.completion('p', 'x')(typed)": {"_completions", "_functions"},
}
PROGRAM = """
import sys
from jackstay import Server
def len_of(text: str) -> str: return text
def nothing() -> str: return ""
def typed(value: str) -> list[str]: return [value]
{step}
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("jackstay.server.")))
"""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step or "the name alone")
def test_what_makes_entries_is_loaded_with_the_first_of_its_kind(step: str) -> None:
    """design/performance.md, the import row: `Server` is a name until something is registered."""
    program = [sys.executable, "-c", PROGRAM.format(step=step)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=True)
    assert set(done.stdout.split()) & MAKERS == STEPS[step]


def echo(text: str) -> str:
    """Say it again."""
    return text


def test_each_kind_is_made_with_what_was_said_of_it() -> None:
    tool = make_tool(echo, {"title": "Echo"})
    assert (tool.key, b'"title":"Echo"' in tool.listed, b"Say it again." in tool.listed) == (
        "echo",
        True,
        True,
    )
    assert make_prompt(echo, {"name": "again"}).key == "again"
    assert make_resource("echo://{text}", echo, {"mime_type": "text/plain"}).key == "echo://{text}"


def test_a_handler_with_a_ready_schema_is_a_tool_under_the_name_given() -> None:
    entry = make_ready_tool(
        echo, "ready", ({"type": "object"}, None), {"description": "As is."}, validate=False
    )
    assert (entry.key, b'"description":"As is."' in entry.listed) == ("ready", True)


@pytest.mark.parametrize(
    ("of", "key"),
    [
        ("greet", ("ref/prompt", "greet")),
        ("file:///{path}", ("ref/resource", "file:///{path}")),
        ("{scheme}:all", ("ref/resource", "{scheme}:all")),
        (PromptReference(name="a://b"), ("ref/prompt", "a://b")),
        (ResourceTemplateReference(uri="plain"), ("ref/resource", "plain")),
    ],
)
def test_a_completion_is_of_a_template_if_its_text_could_be_one(
    of: str | PromptReference | ResourceTemplateReference, key: tuple[str, str]
) -> None:
    entry = make_completion(of, "text", lambda typed: [typed], None)
    assert entry.key == (*key, "text")


def test_what_cannot_be_registered_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no parameter other"):
        make_resource("echo://{other}", echo, {})


def test_an_option_that_is_none_is_refused_with_those_there_are() -> None:
    for make in (
        lambda: make_tool(echo, {"reaad_only": True}),  # type: ignore[typeddict-unknown-key]  # the mistake
        lambda: make_prompt(echo, {"reaad_only": True}),  # type: ignore[typeddict-unknown-key]  # as above
        lambda: make_resource("echo://{text}", echo, {"reaad_only": True}),  # type: ignore[typeddict-unknown-key]  # as above
    ):
        with pytest.raises(
            UsageError, match="there is no option 'reaad_only' here; there are name, "
        ) as refused:
            make()
        assert refused.value.path == "reaad_only"
