"""Creation of entries, and which modules that loads (in a fresh process)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.server import Server
from jackstay.types import PromptReference, ResourceTemplateReference

MODULES = {"_tools", "_resources", "_prompts", "_completions", "_functions"}

# Code -> the modules that it loads.
STEPS = {
    "": set(),
    "server = Server('s')": set(),
    "server = Server('s'); server.tool(len_of)": {"_tools", "_functions"},
    "server = Server('s'); server.prompt(len_of)": {"_prompts", "_functions"},
    "server = Server('s'); server.resource('a://b')(nothing)": {"_resources", "_functions"},
    "server = Server('s'); server.completion('p', 'x')(complete)": {"_completions", "_functions"},
}
PROGRAM = """
import sys
from jackstay import Server
def len_of(text: str) -> str: return text
def nothing() -> str: return ""
def complete(value: str) -> list[str]: return [value]
{step}
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("jackstay.server.")))
"""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step or "import")
def test_modules_are_loaded_with_the_first_entry_of_a_kind(step: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(step=step)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=240, check=True)
    assert set(done.stdout.split()) & MODULES == STEPS[step]


def echo(text: str) -> str:
    """Repeat it."""
    return text


def test_entries_have_their_options() -> None:
    server = Server("s")
    server.tool(title="Echo")(echo)
    server.prompt(name="again")(echo)
    server.resource("echo://{text}", mime_type="text/plain")(echo)
    listed = server.catalogue.tools["echo"].listed
    assert (b'"title":"Echo"' in listed, b"Repeat it." in listed) == (True, True)
    assert list(server.catalogue.prompts) == ["again"]
    assert server.catalogue.templates["echo://{text}"].options.mime_type == "text/plain"


def test_a_handler_with_a_schema() -> None:
    options: Any = {"handler": echo, "input_schema": {"type": "object"}, "validate": False}
    entry = Server("s").tool_from_schema("named", **options, description="As is.")
    assert (entry.key, b'"description":"As is."' in entry.listed) == ("named", True)


def test_a_completion_is_for_a_template_if_the_string_is_a_uri(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str | PromptReference | ResourceTemplateReference, tuple[str, str]]] = [
        ("greet", ("ref/prompt", "greet")),
        ("file:///{path}", ("ref/resource", "file:///{path}")),
        ("{scheme}:all", ("ref/resource", "{scheme}:all")),
        (PromptReference(name="a://b"), ("ref/prompt", "a://b")),
        (ResourceTemplateReference(uri="plain"), ("ref/resource", "plain")),
    ]
    for of, key in cases:
        with subtests.test(of=of, key=key):
            server = Server("s")
            server.completion(of, "text")(lambda value: [value])
            assert list(server.catalogue.completions) == [(*key, "text")]


def test_a_template_that_does_not_match_the_function_is_rejected() -> None:
    with pytest.raises(UsageError, match="no parameter for the variable 'other'"):
        Server("s").resource("echo://{other}")(echo)


def test_an_unknown_option_is_a_type_error_with_a_suggestion() -> None:
    server = Server("s")
    titel: Any = {"titel": "x"}
    for register in (server.tool(**titel), server.prompt(**titel), server.resource("echo://{text}", **titel)):
        message = r"\(\) got an unexpected option 'titel'; did you mean 'title'\?"
        with pytest.raises(UnexpectedOptionError, match=message) as raised:
            register(echo)
        assert raised.value.path == "titel"
