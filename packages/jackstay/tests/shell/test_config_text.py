"""Changes of one entry in a configuration file keep everything else: comments, order, layout."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.shell._config_text import change_entry, read_text

ENTRY = {"command": "/bin/x", "args": ["-y", 'a "b"', "ü"], "env": {"A": "1"}}

COMMENTED = """\
// settings of the editor
{
    "theme": "dark", // the best
    /* servers */
    "mcpServers": {
        // the first
        "one": {"command": "a"},
        "two": {"url": "https://x.example/a//b"}, // a URL is not a comment
    },
    "last": [1, 2,],
}
"""


def test_an_entry_is_added_to_json_with_comments() -> None:
    after = change_entry(COMMENTED, "json", "mcpServers", "three", ENTRY)
    kept = [line for line in after.splitlines() if line in COMMENTED.splitlines()]
    assert kept == COMMENTED.splitlines()
    assert '        "three": {\n            "command": "/bin/x",' in after
    assert list(read_text(after, "json")["mcpServers"]) == ["one", "two", "three"]
    assert change_entry(after, "json", "mcpServers", "three", None) == COMMENTED


def test_an_entry_of_json_is_replaced_and_removed() -> None:
    replaced = change_entry(COMMENTED, "json", "mcpServers", "one", {"command": "b"})
    assert "// the first" in replaced
    assert read_text(replaced, "json")["mcpServers"]["one"] == {"command": "b"}
    for name in ("one", "two"):
        removed = change_entry(COMMENTED, "json", "mcpServers", name, None)
        assert name not in read_text(removed, "json")["mcpServers"]
        assert "// the first" in removed
        assert "// a URL is not a comment" in removed
    assert change_entry(COMMENTED, "json", "mcpServers", "none", None) == COMMENTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "{}",
        "{\n}\n",
        '{"a": 1}',
        '{"mcpServers": {}}',
        '{"mcpServers": {}, "b": 2}',
        '{"mcpServers": {"x": {"command": "y"}}}',
        '{\n\t"a": 1\n}',
        '{"mcpServers": null}',
        '{"mcpServers": {\n  // nothing yet\n}}',
        '{"mcpServers": {"x": 1 /* , */ , /* two */ "y": 2 /* end */ }}',
    ],
)
def test_json_of_any_layout_is_changed_and_changed_back(text: str) -> None:
    after = change_entry(text, "json", "mcpServers", "n", ENTRY)
    assert read_text(after, "json")["mcpServers"]["n"] == ENTRY
    back = change_entry(after, "json", "mcpServers", "n", None)
    document = read_text(text, "json")
    assert read_text(back, "json") == {**document, "mcpServers": document.get("mcpServers") or {}}
    for comment in ("// nothing yet", "/* , */", "/* two */", "/* end */"):
        assert (comment in back) == (comment in text)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_on_one_line_is_on_one_line_again(end: str) -> None:
    for text in ('{"mcpServers": {"x": {"command": "y"}}, "b": 1}', f'{{"mcpServers": {{"x": 1}}}}{end}'):
        added = change_entry(text, "json", "mcpServers", "n", ENTRY)
        assert change_entry(added, "json", "mcpServers", "n", None) == text
    # The end of a line ends a comment.
    text = f'{{"mcpServers": {{"x": 1, // one{end}"n": 2}}, "b": 1}}'
    assert change_entry(text, "json", "mcpServers", "n", None) == f'{{"mcpServers": {{"x": 1 // one{end}}}, "b": 1}}'


@given(st.dictionaries(st.text(), st.none() | st.text() | st.lists(st.integers())), st.sampled_from([None, 0, 1, 3]))
def test_any_json_keeps_its_other_members(servers: dict[str, object], indent: int | None) -> None:
    text = json.dumps({"a": "}", "mcpServers": servers, "z": [{}]}, indent=indent)
    for name in (*servers, "new"):
        after = read_text(change_entry(text, "json", "mcpServers", name, ENTRY), "json")
        assert after == {"a": "}", "mcpServers": {**servers, name: ENTRY}, "z": [{}]}
        removed = read_text(change_entry(text, "json", "mcpServers", name, None), "json")
        assert removed["mcpServers"] == {key: value for key, value in servers.items() if key != name}


TOML = """\
# the model
model = "o3"

[mcp_servers.one] # first
command = "a"

[mcp_servers.one.env]
A = "1"

# the profile
[profiles.x]
b = 2
"""


def test_tables_of_toml_are_added_replaced_and_removed() -> None:
    added = change_entry(TOML, "toml", "mcp_servers", "two words", ENTRY)
    assert added.startswith(TOML)
    assert '[mcp_servers."two words".env]' in added
    assert change_entry(added, "toml", "mcp_servers", "two words", None) == TOML
    replaced = change_entry(TOML, "toml", "mcp_servers", "one", ENTRY)
    assert "# the profile\n[profiles.x]" in replaced
    removed = change_entry(TOML, "toml", "mcp_servers", "one", None)
    assert removed == '# the model\nmodel = "o3"\n\n# the profile\n[profiles.x]\nb = 2\n'
    assert read_text(change_entry("", "toml", "mcp_servers", "a", ENTRY), "toml") == {"mcp_servers": {"a": ENTRY}}


YAML = """\
# goose
GOOSE_MODEL: x
extensions:
  # built in
  developer:
    enabled: true
    args: []

  # another
  memory:
    enabled: false
last: 1
"""


def test_entries_of_yaml_are_added_replaced_and_removed() -> None:
    added = change_entry(YAML, "yaml", "extensions", "n", ENTRY)
    assert read_text(added, "yaml")["extensions"]["n"] == ENTRY
    assert [line for line in added.splitlines() if line in YAML.splitlines()] == YAML.splitlines()
    assert change_entry(added, "yaml", "extensions", "n", None) == YAML
    for name in ("developer", "memory"):
        removed = change_entry(YAML, "yaml", "extensions", name, None)
        assert "# another" in removed
        assert "# built in" in removed
        assert name not in read_text(removed, "yaml")["extensions"]
        assert read_text(change_entry(YAML, "yaml", "extensions", name, ENTRY), "yaml")["extensions"][name] == ENTRY
    assert f"    enabled: false\n  # end of memory\n  {json.dumps('n')}:" in change_entry(
        YAML.replace("last:", "  # end of memory\n\n# the last one\nlast:"), "yaml", "extensions", "n", ENTRY
    )
    for text in ("", "a: 1\n", "extensions: {}\n", "extensions:\n", "extensions:\nb: 1"):
        assert read_text(change_entry(text, "yaml", "extensions", "n", ENTRY), "yaml")["extensions"] == {"n": ENTRY}


@pytest.mark.parametrize(
    ("form", "section", "text"),
    [
        ("json", "mcpServers", '{\n  "mcpServers": {\n    "a": {} // one\n  }\n}\n'),
        ("toml", "mcp_servers", TOML),
        ("yaml", "extensions", YAML),
    ],
)
def test_the_line_ends_of_a_file_are_kept(form: str, section: str, text: str) -> None:
    expected = change_entry(text, form, section, "n", ENTRY)
    added = change_entry(text.replace("\n", "\r\n"), form, section, "n", ENTRY)
    assert added == expected.replace("\n", "\r\n")
    removed = change_entry(added, form, section, "n", None)
    assert removed.rstrip() == text.replace("\n", "\r\n").rstrip()


def test_a_layout_that_cannot_be_changed_safely_is_refused() -> None:
    cases = [
        ("json", "[" * 100_000, "nested too deeply"),
        ("json", '{"mcpServers": []}', "is not an object"),
        ("json", "[]", "not an object"),
        ("json", '{"a": ', "invalid|Expecting"),
        ("json", '{"mcpServers": {"n": 1}, "mcpServers": {}}', "cannot edit safely"),
        ("toml", "mcpServers = {n = {command = 'x'}}", "cannot edit safely"),
        ("toml", "a = ", "Invalid"),
        ("yaml", "mcpServers: {a: {b: 1}}", "cannot edit safely"),
        ("yaml", "a: [", "flow"),
    ]
    for form, text, reason in cases:
        with pytest.raises(ValueError, match=reason):
            change_entry(text, form, "mcpServers", "n", ENTRY)


def test_the_extra_for_yaml_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match="require the extra `openapi`"):
        read_text("a: 1", "yaml")
