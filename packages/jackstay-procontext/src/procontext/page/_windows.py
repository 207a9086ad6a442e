"""Windows: the heading map and some lines of a page, within a budget of characters.

Lines get at least half of the budget. If the heading map is larger than half, the deepest levels are left out first,
and `headings_truncated` is set. Lines are never cut: none is longer than half of the minimum budget, so every window
has at least one line, and consecutive windows contain the whole page.
"""

import re
from collections.abc import Callable
from typing import Final

from procontext.models import Heading, Page, Window
from procontext.page._markdown import MAX_HEADING_LENGTH, MAX_LINE_LENGTH, heading_anchors, plain_text

# Half for the headings, half for at least one line.
MIN_BUDGET: Final = 2 * MAX_LINE_LENGTH


def window(page: Page, offset: int = 1, limit: int = 2000, budget: int = 40_000, *, has_map: bool = True) -> Window:
    """Return at most `limit` lines from line `offset` (1-based) and the heading map, in at most `budget` characters.

    Without `has_map`, all of the budget is for lines.

    Raises: ValueError for a budget under 8,000 or an offset or limit under 1.
    """
    if budget < MIN_BUDGET or offset < 1 or limit < 1:
        raise ValueError(
            f"invalid window: offset={offset}, limit={limit}, budget={budget}; the minimum is 1, 1 and {MIN_BUDGET}"
        )
    headings, is_truncated = heading_map(page, budget // 2) if has_map else ("", False)
    max_characters = budget - len(headings)
    first = offset - 1
    last = min(len(page.lines), first + limit)
    end, used = first, -1  # -1: no newline before the first line
    while end < last and used + 1 + len(page.lines[end]) <= max_characters:
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


def heading_map(page: Page, max_characters: int) -> tuple[str, bool]:
    """Return `LINE: ## Text` for each heading, in at most `max_characters`, and whether headings were left out."""
    lines = page.lines
    rows = [
        # An underlined heading is written with `#`.
        f"{heading.line}: {line if (line := lines[heading.line - 1].strip())[:1] == '#' else _hashes(heading)}"
        for heading in page.headings
    ]
    if sum(map(len, rows)) + len(rows) - 1 <= max_characters:
        return "\n".join(rows), False
    kept: list[int] = []
    used = -1
    for index in sorted(range(len(rows)), key=lambda index: page.headings[index].level):
        if used + 1 + len(rows[index]) > max_characters:
            break
        used += 1 + len(rows[index])
        kept.append(index)
    return "\n".join(rows[index] for index in sorted(kept)), True


def _hashes(heading: Heading) -> str:
    return f"{'#' * heading.level} {heading.text}"


def section(page: Page, heading: str) -> tuple[int, int] | None:
    """Return (offset, limit) of the section under a heading, or None if there is no such heading.

    Matches, in this order: the text of a heading, its anchor, the end of an anchor (`Boat.moor` of
    `harbour.Boat.moor`), the text without punctuation, and the only heading that contains the text. Case and leading
    `#` are ignored.
    """
    wanted = _fold(heading)
    if not wanted:
        return None
    bare = _bare(wanted)
    # Without removing markup: the underscores of `__init__` belong to the anchor.
    anchor = heading[:MAX_HEADING_LENGTH].strip().strip("`").lstrip("#").strip().removesuffix("()").casefold()
    folded = [_fold(candidate.text) for candidate in page.headings]
    anchors = [anchor.casefold() for anchor in heading_anchors(page)]
    predicates: tuple[Callable[[int], bool], ...] = (
        lambda index: folded[index] == wanted,
        lambda index: anchors[index] != "" and anchors[index] == anchor,
        lambda index: anchor != "" and anchors[index].endswith(f".{anchor}"),
        lambda index: bare != "" and _bare(folded[index]) == bare,
    )
    for matches in predicates:
        found = next((index for index in range(len(folded)) if matches(index)), None)
        if found is not None:
            return _span(page, found)
    containing = [index for index, text in enumerate(folded) if wanted in text]
    return _span(page, containing[0]) if len(containing) == 1 else None


def fitting_part(page: Page, first: int, length: int, max_characters: int) -> int:
    """Return how many lines of a section to read: its own text, and the subsections that fit with it."""
    ends = [heading.line for heading in page.headings if first < heading.line < first + length]
    used, line, part = 0, first, length
    for end in (*ends, first + length):
        used += sum(len(text) + 1 for text in page.lines[line - 1 : end - 1])
        if used > max_characters and line > first:
            return part
        line, part = end, end - first
    return length


def _span(page: Page, index: int) -> tuple[int, int]:
    """Return (offset, limit) from a heading to the next heading of the same or a higher level."""
    heading = page.headings[index]
    following = (later.line for later in page.headings[index + 1 :] if later.level <= heading.level)
    return heading.line, next(following, len(page.lines) + 1) - heading.line


def _fold(text: str) -> str:
    return plain_text(text[:MAX_HEADING_LENGTH].strip().lstrip("#").strip()).casefold()


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


__all__ = ["MIN_BUDGET", "fitting_part", "heading_map", "section", "window"]
