"""Text results of tools, and errors. `test_structured` has the other results."""

import math
from typing import Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server._content import Image
from jackstay.server._output import encode_content_result, error_result, read_output

NOW = "2025-11-25"


def decoded(encoded: bytes) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.json.decode(encoded)
    return result


def test_values_without_a_json_form_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [(math.nan, "nan"), ([math.inf], "inf"), (1j, "complex"), ("\ud800", "surrogate")]
    for value, message in cases:
        with subtests.test(value=value), pytest.raises(UsageError, match=message):
            encode_content_result(value, NOW)


def test_content_results() -> None:
    assert decoded(encode_content_result("hi", NOW)) == {"content": [{"type": "text", "text": "hi"}]}
    assert decoded(encode_content_result(None, NOW)) == {"content": []}
    assert decoded(encode_content_result(Image(b"\0"), NOW))["content"][0]["type"] == "image"


def test_error_result() -> None:
    assert decoded(error_result("bad")) == {"content": [{"type": "text", "text": "bad"}], "isError": True}
    assert decoded(error_result("half \ud800"))["content"][0]["text"] == "half ?"


def test_strings_have_no_schema() -> None:
    output = read_output(str, "t")
    assert output.schema is None
    assert decoded(output.encode_result("hi", NOW)) == {"content": [{"type": "text", "text": "hi"}]}
