"""The text of results."""

import json

import pytest

from apcore_mcp.formats import make_formatter, to_csv, to_jsonl

ROWS = [{"name": "Ann", "age": 30}, {"name": "Bo, jr", "tags": ["x"], "ok": True}]


def test_csv() -> None:
    assert to_csv(ROWS) == 'name,age,tags,ok\r\nAnn,30,,\r\n"Bo, jr",,"[""x""]",true\r\n'
    assert to_csv({"rows": ROWS}) == to_csv(ROWS)
    assert to_csv({"a": 1, "b": [1]}) == "a,b\r\n1,[1]\r\n"


def test_json_lines() -> None:
    assert [json.loads(line) for line in to_jsonl(ROWS).splitlines()] == ROWS


def test_output_without_rows_stays_json() -> None:
    with pytest.raises(ValueError, match="no rows"):
        to_csv([1, 2])
    make = make_formatter("csv")
    assert make is not None
    assert make("[1, 2]") == "[1, 2]"


def test_function_makes_the_text() -> None:
    shout = make_formatter(None, lambda output: str(output["text"]).upper())
    assert shout is not None
    assert shout('{"text": "hi"}') == "HI"
    assert shout('{"other": "hi"}') == '{"other": "hi"}'
    assert make_formatter(None) is None
    assert make_formatter("json") is None
