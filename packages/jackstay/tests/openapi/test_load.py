"""Documents from files, text and mappings."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.openapi import OpenApiError, load_document
from jackstay.openapi import _load as module

JSON = '{"openapi": "3.1.0", "info": {"title": "t"}, "paths": {}}'
YAML = """
openapi: 3.0.3
info: {title: t, version: 2026-01-02}
paths:
  /x:
    get:
      responses:
        200: {description: ok}
        on: &a {description: a}
        null: *a
"""


def test_text_bytes_files_and_mappings(tmp_path: Path) -> None:
    for name, content in (("a.json", JSON), ("a.yaml", YAML)):
        (tmp_path / name).write_text(content)
        sources: list[Any] = [
            content,
            content.encode(),
            tmp_path / name,
            str(tmp_path / name),
            b"\xef\xbb\xbf" + content.encode(),
        ]
        assert len({str(load_document(source).root) for source in sources}) == 1
    assert load_document({"openapi": "3.1.0", "paths": {}}).root["openapi"] == "3.1.0"


def test_yaml_keys_are_strings_and_dates_are_not_converted() -> None:
    root: Any = load_document(YAML).root
    assert root["info"]["version"] == "2026-01-02"
    assert list(root["paths"]["/x"]["get"]["responses"]) == ["200", "true", "null"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("https://example.org/openapi.json", "does not fetch 'https://example.org/openapi.json': pass the text"),
        ("no-such-file.json", "cannot read the document 'no-such-file.json': No such file"),
        (7, "expected a path, JSON or YAML text, or a mapping, got int"),
        ("{", "not valid JSON"),
        (b"\xff{", "not valid"),
        ("a: [\n", "not valid YAML in line"),
        ("- x\n", "must be an object, not list"),
        ("a: !!python/object:os.system {}\n", "not valid YAML"),
        ("a: " + "[" * 200 + "\n", "nested too deeply"),
        ("a: &x\n  b: *x\n", "aliases"),
        ({"openapi": object()}, "has no JSON form"),
        ("? [1]\n: 2\n", "not valid YAML"),
        ("a: !!int x\n", "no JSON form"),
    ],
)
def test_what_cannot_be_read(source: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_document(source)
    assert message in str(caught.value)


def test_aliases_that_expand_without_end_are_refused() -> None:
    lines = ["a0: &a0 [xxxxxxxxxx, xxxxxxxxxx]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    with pytest.raises(OpenApiError, match="aliases of the document expand to more than"):
        load_document("\n".join(lines))


def test_the_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 20)
    for source in (JSON, {"openapi": "3.1.0", "paths": {}}):
        with pytest.raises(OpenApiError, match=r"too large: .* the limit is 20"):
            load_document(source)


def test_yaml_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_yaml(name: str, *rest: Any, **more: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    with pytest.raises(UsageError, match=r"pip install 'jackstay\[openapi\]'"):
        load_document(YAML)
