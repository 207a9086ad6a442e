"""Versions and ranges as requirements have them: `18`, `==4.2.11`, `>=4.2,<5`, `^18.2.0`, `1.x`."""

import re
import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

from procontext.resolve._names import subject

Numbers: TypeAlias = tuple[int, ...]

_NUMBERS = re.compile(r"\s*[vV]?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(r"(===?|>=|<=|!=|~=|~>|[<>=^~])?\s*[vV]?(\d+(?:\.\d+)*(?:\.[xX*])?)(?:[-+.]?[\w.+-]*)")
_SPOKEN = re.compile(r"\S.*?\s+v?(\d+(?:\.\w+)*)(?=\s|$)")
_ARCHIVE = re.compile(r"[\w.]+?-(\d[\w.!+]*)(?:-[\w.]+){2,4}\.whl$|[\w.-]+?-(\d[\w.]*)\.(?:tar\.gz|tgz|zip)$")
_JSON_LINE = re.compile(r"[\"']@?[\w./-]+[\"']\s*:\s*[\"']([^\"']*)")
_SPECIFIER = re.compile(r"^@?[^@\s\[<>=!~^;,(]+(?:\[[^\]]*\])?\s*(?:@|\(?\s*(?=[<>=!~^]))\s*([^;)#]+)")
# A release has three numbers and a series two: documentation is published for a series.
_SERIES = 2


def requested_version(query: str) -> str | None:
    """Return the version or range in a query, or None: `18` of `react@18`, `>=4.2,<5` of `Django>=4.2,<5`."""
    text = unicodedata.normalize("NFKC", query).strip().lower()
    line = _JSON_LINE.match(text)
    archive = _ARCHIVE.match(text)
    name = subject(query)
    found = _SPECIFIER.match(name)
    spoken = _SPOKEN.match(name)
    if line is not None:
        version = line[1]
    elif archive is not None:
        version = archive[1] or archive[2]
    elif found is not None:
        version = found[1]
    else:
        version = "" if spoken is None else spoken[1]
    version = version.strip(" \t\"'`")
    return version if len(version) <= 100 and _CLAUSE.search(version) is not None else None


def numbers(version: str) -> Numbers:
    """Return the numbers of a version: (4, 2) for `v4.2rc1` and for `4.2.x`. Empty if it has none."""
    found = _NUMBERS.match(version)
    return () if found is None else tuple(int(part) for part in found[1].split(".")[:4] if len(part) < 10)


def allows(wanted: str, version: str) -> bool:
    """Return whether documentation of `version` is about what is wanted.

    A release is documented by its series: `4.2` and `4.2.16` are right for `4.2.11`. A range allows a series that it
    overlaps.
    """
    stated = numbers(version)
    return bool(stated) and any(
        all(_meets(operator, clause, stated) for operator, clause in _clauses(alternative))
        for alternative in wanted.split("||")
    )


def best_version(wanted: str, versions: Iterable[str]) -> str | None:
    """Return the version that fits best: the most equal numbers, then the newest; None if none is allowed."""
    named = wanted_numbers(wanted)
    is_range = any(operator not in ("", "=", "==", "===") for operator, _ in _clauses(wanted.replace("||", ",")))

    def rank(version: str) -> tuple[int, Numbers]:
        found = numbers(version)
        equal = next((at for at, pair in enumerate(zip(found, named, strict=False)) if pair[0] != pair[1]), len(found))
        return (0 if is_range else min(equal, len(named)), found)

    return max((version for version in versions if allows(wanted, version)), key=rank, default=None)


def wanted_numbers(wanted: str) -> Numbers:
    """Return the first version that a range names and allows; the version itself if it is none."""
    named = [numbers(clause) for _, clause in _clauses(wanted.replace("||", ","))]
    return next((found for found in named if allows(wanted, ".".join(map(str, found)))), named[0] if named else ())


def _clauses(text: str) -> list[tuple[str, str]]:
    return [(match[1] or "", match[2]) for match in _CLAUSE.finditer(text)]


def _meets(operator: str, clause: str, stated: Numbers) -> bool:
    bound = numbers(clause)
    short = bound[: len(stated)]
    if operator in ("^", "~", "~=", "~>"):
        if operator == "^":
            kept = next((at for at, number in enumerate(bound, 1) if number), 1)
        else:
            kept = max(1, min(len(bound) - (operator != "~"), _SERIES))
        return stated[:kept] == bound[:kept][: len(stated)] and stated >= short
    if operator in (">=", ">"):
        return stated >= short
    if operator == "<=":
        return stated[: len(bound)] <= bound
    if operator == "<":
        return stated < bound
    if operator == "!=":
        return stated[: len(bound)] != bound or len(bound) > _SERIES
    length = min(len(bound), len(stated), _SERIES)
    return stated[:length] == bound[:length]


__all__ = ["allows", "best_version", "numbers", "requested_version", "wanted_numbers"]
