"""What of a page goes into one answer: a map of its headings and some of its lines, together inside a budget of characters.

The lines get what the headings leave, and at least half. If the map alone is more than half, the deepest levels go first, and of
the level that fits only in part the last ones; then `headings_truncated` is said. Lines are never cut: none is longer
than half of the smallest budget, so every window has at least one, and windows put one after another are the page.

Pure. Must never know where a page came from. Above: the tools. Below: `procontext.models`.
"""

import re
from collections.abc import Callable
from typing import Final

from procontext.models import Heading, Page, Window
from procontext.page._markdown import LONGEST_HEADING, LONGEST_LINE, plain_text

# Twice the longest line: half for the headings, half for at least one line.
SMALLEST_BUDGET: Final = 2 * LONGEST_LINE


def window(page: Page, offset: int = 1, limit: int = 2000, budget: int = 40_000) -> Window:
    """Lines of the page from `offset` (from 1), at most `limit`, and the map of headings; at most `budget` characters.

    Raises: ValueError for a budget under 8,000, or an offset or limit under 1; who takes them from outside checks first.
    """
    if budget < SMALLEST_BUDGET or offset < 1 or limit < 1:
        raise ValueError(f"offset {offset}, limit {limit} and budget {budget} make no window")
    headings, is_truncated = heading_map(page, budget // 2)
    room = budget - len(headings)
    first = offset - 1
    last = min(len(page.lines), first + limit)
    end, used = first, -1  # -1: the first line has no line end before it
    while end < last and used + 1 + len(page.lines[end]) <= room:
        used += 1 + len(page.lines[end])
        end += 1
    return Window(
        content="\n".join(page.lines[first:end]),
        headings=headings,
        headings_truncated=is_truncated,
        offset=offset,
        limit=limit,
        total_lines=len(page.lines),
        next_offset=end + 1 if end < len(page.lines) and end > first else None,
    )


def heading_map(page: Page, room: int) -> tuple[str, bool]:
    """`LINE: ## Text` for each heading, in at most `room` characters, and whether some had to be left out."""
    rows = [f"{heading.line}: {_shown(page, heading)}" for heading in page.headings]
    if sum(map(len, rows)) + len(rows) - 1 <= room:
        return "\n".join(rows), False
    kept: list[int] = []
    used = -1
    for index in sorted(range(len(rows)), key=lambda index: page.headings[index].level):
        if used + 1 + len(rows[index]) > room:
            break
        used += 1 + len(rows[index])
        kept.append(index)
    return "\n".join(rows[index] for index in sorted(kept)), True


def _shown(page: Page, heading: Heading) -> str:
    """The heading's own line, as the reference shows it; an underlined one is written with its `#`s."""
    line = page.lines[heading.line - 1].strip()
    return line if line.startswith("#") else f"{'#' * heading.level} {heading.text}"


def section(page: Page, heading: str) -> tuple[int, int] | None:
    """Where the section under this heading is, as (offset, limit) for `window`; None if there is no such heading.

    Taken in this order: the heading's text, its anchor, the end of an anchor (`Boat.moor` of `harbour.Boat.moor`), its text
    without punctuation, the one heading that contains it. The case of letters does not count, nor do `#`s before it or a `#` of
    an anchor.
    """
    wanted = _fold(heading)
    if not wanted:
        return None
    bare = _bare(wanted)
    # As it was written: the underscores of `__init__` are no markup here.
    anchor = heading[:LONGEST_HEADING].strip().strip("`").lstrip("#").strip().removesuffix("()").casefold()
    folded = [_fold(one.text) for one in page.headings]
    anchors = [one.anchor.casefold() for one in page.headings]
    ways: tuple[Callable[[int], bool], ...] = (
        lambda index: folded[index] == wanted,
        lambda index: anchors[index] != "" and anchors[index] == anchor,
        lambda index: anchor != "" and anchors[index].endswith(f".{anchor}"),
        lambda index: bare != "" and _bare(folded[index]) == bare,
    )
    for same in ways:
        found = next((index for index in range(len(folded)) if same(index)), None)
        if found is not None:
            return _span(page, found)
    containing = [index for index, one in enumerate(folded) if wanted in one]
    return _span(page, containing[0]) if len(containing) == 1 else None


def _span(page: Page, index: int) -> tuple[int, int]:
    """From the heading up to the next one that is not below it."""
    heading = page.headings[index]
    following = (one.line for one in page.headings[index + 1 :] if one.level <= heading.level)
    return heading.line, next(following, len(page.lines) + 1) - heading.line


def _fold(text: str) -> str:
    return plain_text(text[:LONGEST_HEADING].strip().lstrip("#").strip()).casefold()


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


__all__ = ["SMALLEST_BUDGET", "heading_map", "section", "window"]
