"""Validation of tool output: our bounded validator, and `jsonschema-rs` if it is installed.

    python bench/output_check.py

Validates ordinary outputs, and hostile schemas, which are small, because `jsonschema-rs` cannot be interrupted.
"""

import time
from collections.abc import Callable
from typing import Any

from jackstay.client._output import checker

try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None

ROW = {"type": "object", "properties": {f"c{n}": {"type": "string"} for n in range(10)}, "required": ["c0"]}
TABLE = {"type": "object", "properties": {"rows": {"type": "array", "items": ROW}}}
DEFINITIONS = {
    f"d{n}": {"type": "object", "properties": {f"p{m}": {"type": "string"} for m in range(10)}} for n in range(40)
}
ANCHORED = {
    "$defs": {**DEFINITIONS, "x": {"$anchor": "a", "type": "integer"}},
    "properties": {"a": {"items": {"$ref": "#a"}}},
}


def table(rows: int) -> dict[str, Any]:
    """Return an output with this many rows of ten columns."""
    return {"rows": [{f"c{n}": "x" for n in range(10)} for _ in range(rows)]}


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema whose last definition is evaluated 2^levels times."""
    definitions: dict[str, Any] = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/0", "$defs": {**definitions, str(levels): {}}}


CASES: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("one number", {"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1}),
    ("100 rows of 10", TABLE, table(100)),
    ("2,000 rows of 10", TABLE, table(2000)),
    ("1,000 references by anchor", ANCHORED, {"a": [1] * 1000}),
    ("pattern (a+)+", {"pattern": "^(a+)+$"}, "a" * 60 + "!"),
    *((f"{levels} doublings", doubling(levels), {}) for levels in (18, 20, 22)),
)


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Return the seconds of one call, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def main() -> None:
    """Print a table of all cases."""
    print(f"{'':28}{'ours, compile':>15}{'check':>12}{'rs, compile':>15}{'check':>12}")
    for name, schema, output in CASES:
        compiling, check = seconds(lambda schema=schema: checker(schema))
        checking, problem = seconds(lambda check=check, output=output: check(output))  # type: ignore[operator]
        line = f"{name:28}{compiling * 1e3:12.2f} ms{checking * 1e3:9.2f} ms"
        if jsonschema_rs is not None:
            options = jsonschema_rs.RegexOptions()
            compiling, other = seconds(
                lambda schema=schema, options=options: jsonschema_rs.validator_for(schema, pattern_options=options)
            )
            checking, _ = seconds(lambda other=other, output=output: other.is_valid(output))  # type: ignore[attr-defined]
            line += f"{compiling * 1e3:12.2f} ms{checking * 1e3:9.2f} ms"
        print(line + (f"  ({problem})" if problem else ""))
    if jsonschema_rs is None:
        print("jsonschema-rs is not installed: pip install jsonschema-rs")


if __name__ == "__main__":
    main()
