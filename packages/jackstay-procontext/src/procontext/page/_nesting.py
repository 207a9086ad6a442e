"""The nesting depth of an HTML page, estimated without parsing it.

A parser searches the open elements at each tag, so its time is quadratic in the depth: a hostile page of ten megabytes
could block a thread for an hour. Tags are tokenized as in the HTML standard (13.2.5), and an end tag counts only where
it certainly closes its element (13.2.6.4.7), so that end tags in comments, attributes or scripts cannot hide the depth.
"""

import re
from typing import Final

from procontext.page._limits import MAX_ELEMENTS, Deadline, PageTooLargeError

# The maximum depth. Real pages are nested less than 100 deep; with unclosed elements the estimate is a few hundred.
MAX_DEPTH: Final = 1000
# The maximum number of attributes of a tag. The parser compares each with all before it. Real tags have a few dozen.
MAX_ATTRIBUTES: Final = 500

# The start of a tag, a comment or a bogus comment.
_BEGINNING = re.compile(r"<(?:(!--)|(!\[CDATA\[)|([!?]|/(?![A-Za-z]))|(/?)([A-Za-z][^\t\n\f\r />]*))")
# One attribute of a tag. A quote starts a value only after `=`; elsewhere it is an ordinary character.
_ATTRIBUTE = re.compile(
    r"[\t\n\f\r /]*+(?:([^\t\n\f\r />][^\t\n\f\r />=]*+)"
    r"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>)))?+)?+"
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Void elements, and elements that the next of their kind closes: they do not nest in themselves.
_UNCLOSED: Final = _names(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
    " p li dt dd tr td th tbody thead tfoot option colgroup caption"
)
# Table parts, which close everything in the previous cell.
_TABLE_PARTS: Final = frozenset(("caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"))
# Uncounted elements that block an end tag, by kind; each is closed by the next of its kind.
_BARRIERS: Final = {"p": "p", "li": "li", "dt": "dd", "dd": "dd"}
# Elements that contain text only.
_RAW_TEXT: Final = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"))
# Foreign elements (13.2.6.5), in which a tag may be self-closing.
_FOREIGN: Final = frozenset(("svg", "math"))
# HTML and MathML text integration points: inside them, the rules of HTML apply again.
_INTEGRATION_POINTS: Final = frozenset(
    ("foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext")
)
# Tags that end foreign content, whatever is open in it (13.2.6.5).
_BREAKOUT_TAGS: Final = _names(
    "b big blockquote body center code div dl em font h1 h2 h3 h4 h5 h6 head i listing menu nobr ol pre ruby s small"
    " span strong strike sub sup table tt u ul var"
)
# Blocks: their end tags close everything that is open in them.
_BLOCKS: Final = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header"
    " hgroup listing main menu nav ol pre search section summary ul"
)
# End tags of these close the element if no other counted element is open in it.
_CLOSABLE: Final = _BLOCKS | _names("body button html object select table template h1 h2 h3 h4 h5 h6")
# Elements that may be left open in a block and are closed with it.
_LEFT_OPEN: Final = _BLOCKS | {"span"}
# How many open elements are searched for the block that an end tag closes.
_MAX_CLOSE_DEPTH: Final = 8


def is_too_deep(html: str, deadline: Deadline | None = None) -> bool:
    """Return whether elements are nested too deeply, or a tag has too many attributes.

    An estimate that can be too high, never too low, except for foreign elements, which do not slow the parser down.

    Raises: PageTooLargeError if there are too many elements or the time limit is exceeded.
    """
    return _TagScanner(html, Deadline() if deadline is None else deadline).is_too_deep()


class _TagScanner:
    """Scans the tags of a page. `_stack` has at least the open elements of a parser, without those in `_UNCLOSED`."""

    def __init__(self, html: str, deadline: Deadline | None = None) -> None:
        self._html = html
        self._deadline = Deadline() if deadline is None else deadline
        self._stack: list[str] = []
        # For the page and for each open element: the kinds of uncounted elements that are open in it.
        self._barriers: list[set[str]] = [set()]
        # None: in HTML. True: in foreign content (SVG, MathML). False: unknown without parsing.
        self._is_foreign: bool | None = None
        # The number of open elements at the start of the foreign content, and at its integration point.
        self._foreign_depth = 0
        self._integration_depth: int | None = None
        self._closes_itself = False  # whether the last tag ends with a slash
        self._odd_end = 0  # where the next `--!>` is; -1 if there is none

    def is_too_deep(self) -> bool:
        """Scan up to the first excess."""
        at: int | None = 0
        tags = elements = 0
        while at is not None and (found := _BEGINNING.search(self._html, at)) is not None:
            at = found.end()
            tags += 1
            if tags % 1024 == 0:
                self._deadline.check()
            comment, data, bogus, slash, name = found.groups()
            if comment:
                at = self._after_comment(at)
            elif data and self._is_foreign is not None:
                if not self._is_foreign:
                    return True
                at = self._after("]]>", at)
            elif data or bogus:
                at = self._after(">", at)
            else:
                at, count = self._after_attributes(at)
                if count > MAX_ATTRIBUTES:
                    return True
                elements += not slash
                if elements > MAX_ELEMENTS:
                    raise PageTooLargeError(f"the page has more than {MAX_ELEMENTS} elements")
                if at is not None:
                    at = self._close(name.lower(), at) if slash else self._open(name.lower(), at)
            if len(self._stack) > MAX_DEPTH:
                return True
        return False

    # --- tags ---------------------------------------------------------------------------------------------------------

    def _open(self, name: str, at: int) -> int | None:
        if name == "plaintext":
            return None if self._is_foreign is None else at
        if self._is_foreign is None and name in _RAW_TEXT:
            return self._after_raw(name, at)
        if name in _UNCLOSED or (self._is_foreign and name in _BREAKOUT_TAGS):
            self._mark_uncertain(name)
        if self._closes_itself and (self._is_foreign is True or name in _FOREIGN):
            return at
        if name in _UNCLOSED and not self._is_nested(name):
            return at
        if name in _FOREIGN and self._is_foreign is None:
            self._is_foreign, self._foreign_depth = True, len(self._stack)
        elif self._is_foreign and name in _INTEGRATION_POINTS:
            self._is_foreign, self._integration_depth = False, len(self._stack)
        self._stack.append(name)
        self._barriers.append(set())
        return at

    def _is_nested(self, name: str) -> bool:
        """Return whether an uncounted element must be counted: list items and definitions do not close each other."""
        kind = _BARRIERS.get(name)
        if kind is None:
            return False
        barriers = self._barriers[-1]
        if (kind == "li" and "dd" in barriers) or (kind == "dd" and "li" in barriers):
            return True
        barriers.add(kind)
        return False

    def _mark_uncertain(self, name: str) -> None:
        """Record that the rules in force are unknown until the foreign content certainly ends."""
        if self._is_foreign or name in _TABLE_PARTS:
            self._integration_depth = None
        if self._is_foreign:
            self._is_foreign = False

    def _close(self, name: str, at: int) -> int:
        stack = self._stack
        if stack and stack[-1] == name and (name in _CLOSABLE or not self._barriers[-1]):
            self._pop(1)
            if len(stack) == self._integration_depth:
                self._is_foreign, self._integration_depth = True, None
        elif name in _BARRIERS:
            self._barriers[-1].discard(_BARRIERS[name])
        elif self._is_foreign is not None:
            self._is_foreign, self._integration_depth = False, None
        elif name in _BLOCKS:
            self._close_block(name)
        if self._is_foreign is not None and len(stack) <= self._foreign_depth:
            self._is_foreign = self._integration_depth = None
        return at

    def _close_block(self, name: str) -> None:
        """Close a block in which other elements are still open."""
        stack = self._stack
        for back in range(1, min(_MAX_CLOSE_DEPTH, len(stack)) + 1):
            if stack[-back] == name:
                self._pop(back)
                return
            if stack[-back] not in _LEFT_OPEN:
                return

    def _pop(self, count: int) -> None:
        del self._stack[-count:]
        del self._barriers[-count:]

    # --- end positions; None if the rest of the page is inside --------------------------------------------------------

    def _after(self, end: str, at: int) -> int | None:
        found = self._html.find(end, at)
        return None if found < 0 else found + len(end)

    def _after_comment(self, at: int) -> int | None:
        # `<!-->` and `<!--->` are complete comments, and `--!>` also ends one.
        plain = self._after("-->", at - 2)
        if 0 <= self._odd_end < at:
            self._odd_end = self._html.find("--!>", at)
        odd = None if self._odd_end < 0 else self._odd_end + 4
        return min((end for end in (plain, odd) if end is not None), default=None)

    def _after_raw(self, name: str, at: int) -> int | None:
        end = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(self._html, at)
        return None if end is None else self._after_attributes(end.end())[0]

    def _after_attributes(self, at: int) -> tuple[int | None, int]:
        """Return the end position of the tag and the number of its attributes."""
        count = 0
        while count <= MAX_ATTRIBUTES:
            found = _ATTRIBUTE.match(self._html, at)
            assert found is not None  # every part is optional
            at = found.end()
            if found[1] is None:
                self._closes_itself = found[0].endswith("/")  # not the slash of a value: `a=b/`
                return (at + 1 if self._html[at : at + 1] == ">" else None), count
            count += 1
        return at, count


__all__ = ["MAX_ATTRIBUTES", "MAX_DEPTH", "is_too_deep"]
