"""The options of `serve()`."""

import json
from pathlib import Path
from typing import Any

import pytest
from apcore import MetricsCollector

from apcore_mcp.options import ServeKeywords, ServeOptions, make_options


def test_defaults() -> None:
    made = make_options()
    assert (made.transport, made.host, made.port, made.name) == ("stdio", "127.0.0.1", 8000, "apcore-mcp")
    assert (made.version, made.tags, made.prefix, made.log_level) == (None, None, None, None)
    assert (made.dynamic, made.validate_inputs, made.explorer) == (False, False, False)
    assert (made.inspector_prefix, made.approval) == ("/inspector", "elicit")
    assert made.has_metrics is False
    assert make_options(metrics=True).has_metrics
    assert make_options(metrics_collector=MetricsCollector()).has_metrics


def test_transport_and_log_level_are_case_insensitive() -> None:
    made = make_options(transport="Streamable-HTTP", log_level="debug")
    assert (made.transport, made.log_level) == ("streamable-http", "DEBUG")
    assert make_options(log_level=None).log_level is None


WRONG = [
    {"transport": "pigeon"},
    {"transport": 7},
    {"transport": None},
    {"host": ""},
    {"port": 0},
    {"port": 65536},
    {"port": "80"},
    {"port": True},
    {"name": ""},
    {"name": "x" * 256},
    {"version": ""},
    {"tags": [""]},
    {"prefix": ""},
    {"log_level": "LOUD"},
    {"log_level": 3},
    {"approval": "maybe"},
    {"inspector_prefix": "inspector"},
    {"inspector_prefix": "/"},
    {"inspector_prefix": "/a/"},
    {"inspector_prefix": "/mcp"},
    {"inspector_prefix": "/health"},
    {"inspector_prefix": "/a?b"},
    {"inspector_prefix": "/health/inspector"},  # the route of /health matches
    {"inspector_prefix": "//evil.example"},  # a browser reads it as another host
    {"inspector_prefix": "/a//b"},
    {"inspector_prefix": "/a/../b"},
    {"inspector_prefix": "/."},
    {"inspector_prefix": "/a\\b"},
    {"inspector_prefix": "/a\n"},
    {"hosts": [""]},
    {"cors": [7]},
]


def test_invalid_values(subtests: pytest.Subtests) -> None:
    for given in WRONG:
        with subtests.test(given=given), pytest.raises(ValueError, match=next(iter(given))):
            make_options(**given)


WRONG_TYPES: list[dict[str, Any]] = [
    {"tags": "math"},
    {"tags": 7},
    {"hosts": "example.org"},  # a str is not a list of names
    {"hosts": 7},
    {"cors": "https://example.org"},
    {"cors": None},
    {"on_startup": 7},
    {"on_shutdown": "x"},
    {"colour": 1},
    {"metrics_collector": 7},
    # A str such as "false" would be true, and None would be false.
    {"explorer": "false"},
    {"redact_output": None},
    {"require_auth": 0},
    {"dynamic": "no"},
]


def test_wrong_types(subtests: pytest.Subtests) -> None:
    for given in WRONG_TYPES:
        with subtests.test(given=given), pytest.raises(TypeError, match=next(iter(given))):
            make_options(**given)


def test_boundaries_are_allowed() -> None:
    for port in (1, 65535):
        assert make_options(port=port).port == port
    assert make_options(name="x" * 255, tags=["a"], prefix="a.").tags == ["a"]
    for path in ("/i", "/tools/in-spector_2.0/~me", "/.well/...", "/healthy"):
        assert make_options(inspector_prefix=path).inspector_prefix == path


def test_every_option_is_a_keyword() -> None:
    assert set(ServeKeywords.__annotations__) == set(ServeOptions.__struct_fields__) - {"extensions"}


def test_options_are_documented_with_their_defaults() -> None:
    page = (Path(__file__).parents[3] / "docs" / "apcore.md").read_text(encoding="utf-8")
    documented: dict[str, str] = {}
    for row in page.partition("| option | default | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0].splitlines():
        names, defaults = row.removeprefix("| ").split(" | ")[:2]
        values = defaults.split(", ")
        documented |= {name.strip("`"): values[min(at, len(values) - 1)] for at, name in enumerate(names.split(", "))}
    made = make_options()
    in_words = {"version": "the package's", "hosts": "localhost", "cors": "none", "exempt_paths": "none"}
    expected = {name: f"`{json.dumps(value) if isinstance(value, str) else value}`" for name, value in vars_of(made)}
    assert documented == {**expected, **in_words}


def vars_of(made: ServeOptions) -> list[tuple[str, Any]]:
    """Return the public options and their values."""
    return [(name, getattr(made, name)) for name in ServeOptions.__struct_fields__ if name != "extensions"]
