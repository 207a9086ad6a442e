"""`Route`: rows that decide how operations are served. The first row that matches an operation applies."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from jackstay.errors import UsageError


class Route(msgspec.Struct, frozen=True):
    """A row of the table `routes=`. An operation is served as the first row states that matches it.

    All of `methods`, `path`, `tag` and `operation_id` must match; those that are not set match everything. In `path`
    and `operation_id`, `*` stands for any characters; a compiled regular expression must match completely.

    `serve` is "tool" (the default), "resource" (only for GET), or "nothing". `name`, `title`, `description` and the
    hints `read_only`, `destructive` and `idempotent` replace those that follow from the document. `uri` is the URI, or
    URI template, of a resource. `allow_slashes` allows slashes in path parameters. `output_schema=False` declares no
    output schema and does not validate responses. `timeout` is in seconds.
    """

    methods: str | Sequence[str] = ()
    path: str | re.Pattern[str] = "*"
    tag: str | None = None
    operation_id: str | re.Pattern[str] = "*"
    serve: Literal["tool", "resource", "nothing"] = "tool"
    name: str | None = None
    title: str | None = None
    description: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    uri: str | None = None
    allow_slashes: bool = False
    output_schema: bool = True
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.serve not in ("tool", "resource", "nothing"):
            message = f"Route(serve=...) must be 'tool', 'resource' or 'nothing', not {self.serve!r}"
            raise UsageError(message, path="serve")
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"Route(timeout=...) must be above 0, not {self.timeout!r}", path="timeout")

    def matches(self, method: str, path: str, tags: Iterable[str], operation_id: str) -> bool:
        """Return whether this row is about an operation."""
        methods = (self.methods,) if isinstance(self.methods, str) else self.methods
        return (
            (not methods or method.upper() in {name.upper() for name in methods})
            and (self.tag is None or self.tag in tags)
            and _matches(self.path, path)
            and _matches(self.operation_id, operation_id)
        )


def _matches(pattern: str | re.Pattern[str], value: str) -> bool:
    if isinstance(pattern, str):
        pattern = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return pattern.fullmatch(value) is not None


# The row for operations that no other row matches.
DEFAULT = Route()


def find_route(routes: Sequence[Route], method: str, path: str, tags: Iterable[str], operation_id: str) -> Route:
    """Return the first row that matches, or the default."""
    return next((route for route in routes if route.matches(method, path, tags, operation_id)), DEFAULT)
