"""How deep the elements of an HTML page are nested, found without parsing it: parsing what is too deep takes for ever.

A parser looks through all open elements at each tag, so time grows by the square of the depth: a page of ten megabytes, made for
it, would keep a thread busy for an hour. Who makes such a page also hides it: end tags in comments, in attributes, in scripts, or
where the standard says that they close nothing. So tags are read as the standard's tokeniser reads them (HTML, 13.2.5), and an end tag
counts only where it certainly closes what it names (13.2.6.4.7). A mistake on a page makes the count too high, never too low.
Inside SVG and MathML a few are not counted that nest there: the parser does not look through those.

Pure. Must never know what a page says. Above: `_html`. Below: nothing.
"""

import re
from typing import Final

from procontext.page._limits import MAX_ELEMENTS, Deadline, PageTooLargeError

# Pages have fewer than 100, and some that never close what they open are counted to a few hundred.
DEEPEST: Final = 1000
# Attributes of one tag: the parser compares each with all before it. Real ones have a few dozen.
MOST_ATTRIBUTES: Final = 500

# What begins a tag, a comment, or what is taken for one.
_BEGINNING = re.compile(r"<(?:(!--)|(!\[CDATA\[)|([!?]|/(?![A-Za-z]))|(/?)([A-Za-z][^\t\n\f\r />]*))")
# The rest of a tag. A quote begins a value only behind the `=` of a name; elsewhere it is a character like any other.
_ATTRIBUTE = re.compile(
    r"[\t\n\f\r /]*+(?:([^\t\n\f\r />][^\t\n\f\r />=]*+)"
    r"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>)))?+)?+"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Without an end tag, or closed by the next of their kind: they do not nest in themselves, however many there are.
_UNCLOSED: Final = _words(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
    " p li dt dd tr td th tbody thead tfoot option colgroup caption"
)
# Those that end whatever stands in the cell before them.
_TABLE_PARTS: Final = frozenset(("caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"))
# Of those that are not counted, the ones past which an end tag does not reach, by kind: each is closed by the next of its own.
_BARRIERS: Final = {"p": "p", "li": "li", "dt": "dd", "dd": "dd"}
# What holds text and no elements.
_RAW: Final = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"))
# Where other rules hold, in which a tag may close itself.
_FOREIGN: Final = frozenset(("svg", "math"))
# Where the usual rules hold again, inside of those.
_BACK: Final = frozenset(
    ("foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext")
)
# Tags that end the foreign part, whatever is open in it (13.2.6.5).
_NO_FOREIGN: Final = _words(
    "b big blockquote body center code div dl em font h1 h2 h3 h4 h5 h6 head i listing menu nobr ol pre ruby s small"
    " span strong strike sub sup table tt u ul var"
)
# Their end tags close all that was left open in them.
_BLOCKS: Final = _words(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header"
    " hgroup listing main menu nav ol pre search section summary ul"
)
# The same of these, if nothing else that is counted is open in them.
_REACHING: Final = _BLOCKS | _words("body button html object select table template h1 h2 h3 h4 h5 h6")
# What may be left open in a block and is gone with it.
_LEFT_OPEN: Final = _BLOCKS | {"span"}
# How far below the last one the block that ends is looked for.
_REACH: Final = 8


def is_too_deep(html: str, deadline: Deadline | None = None) -> bool:
    """Whether elements are nested deeper than on any page, or a tag has more attributes than any tag.

    Raises: PageTooLargeError, if there are too many elements, or no time is left.
    """
    return _Reading(html, Deadline() if deadline is None else deadline).is_too_deep()


class _Reading:
    """One walk over the tags of a page. `stack` has at least the elements that a parser has open, without the unclosed ones."""

    def __init__(self, html: str, deadline: Deadline | None = None) -> None:
        self._html = html
        self._deadline = Deadline() if deadline is None else deadline
        self._stack: list[str] = []
        # Of the page and of each open element: what is open in it and not counted.
        self._barriers: list[set[str]] = [set()]
        # None: the usual rules hold. True: those of SVG and MathML. False: it cannot be said without parsing.
        self._is_foreign: bool | None = None
        # How many elements were open when the foreign ones began, and when the usual rules came back inside of them.
        self._foreign_from = 0
        self._back_from: int | None = None
        self._closes_itself = False  # whether the tag that was read last ends with a slash
        self._odd_end = 0  # where the next `--!>` is; -1 if there is none

    def is_too_deep(self) -> bool:
        """Walk, and stop at the first thing that no page has."""
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
                if count > MOST_ATTRIBUTES:
                    return True
                elements += not slash
                if elements > MAX_ELEMENTS:
                    raise PageTooLargeError(f"the page has more than {MAX_ELEMENTS} elements")
                if at is not None:
                    at = self._close(name.lower(), at) if slash else self._open(name.lower(), at)
            if len(self._stack) > DEEPEST:
                return True
        return False

    # --- what tags do -------------------------------------------------------------------------------------------------

    def _open(self, name: str, at: int) -> int | None:
        if name == "plaintext":
            return None if self._is_foreign is None else at
        if self._is_foreign is None and name in _RAW:
            return self._after_raw(name, at)
        if name in _UNCLOSED or (self._is_foreign and name in _NO_FOREIGN):
            self._doubt(name)
        if self._closes_itself and (self._is_foreign is True or name in _FOREIGN):
            return at
        if name in _UNCLOSED and not self._is_nested(name):
            return at
        if name in _FOREIGN and self._is_foreign is None:
            self._is_foreign, self._foreign_from = True, len(self._stack)
        elif self._is_foreign and name in _BACK:
            self._is_foreign, self._back_from = False, len(self._stack)
        self._stack.append(name)
        self._barriers.append(set())
        return at

    def _is_nested(self, name: str) -> bool:
        """Whether an element that is not counted must be: items of lists and of definitions do not close each other."""
        kind = _BARRIERS.get(name)
        if kind is None:
            return False
        here = self._barriers[-1]
        if (kind == "li" and "dd" in here) or (kind == "dd" and "li" in here):
            return True
        here.add(kind)
        return False

    def _doubt(self, name: str) -> None:
        """From here on, until the foreign part is over for certain, it cannot be said which rules hold."""
        if self._is_foreign or name in _TABLE_PARTS:
            self._back_from = None
        if self._is_foreign:
            self._is_foreign = False

    def _close(self, name: str, at: int) -> int:
        stack = self._stack
        if stack and stack[-1] == name and (name in _REACHING or not self._barriers[-1]):
            self._pop(1)
            if len(stack) == self._back_from:
                self._is_foreign, self._back_from = True, None
        elif name in _BARRIERS:
            self._barriers[-1].discard(_BARRIERS[name])
        elif self._is_foreign is not None:
            self._is_foreign, self._back_from = False, None
        elif name in _BLOCKS:
            self._close_block(name)
        if self._is_foreign is not None and len(stack) <= self._foreign_from:
            self._is_foreign = self._back_from = None
        return at

    def _close_block(self, name: str) -> None:
        """Close a block in which others were left open."""
        stack = self._stack
        for back in range(1, min(_REACH, len(stack)) + 1):
            if stack[-back] == name:
                self._pop(back)
                return
            if stack[-back] not in _LEFT_OPEN:
                return

    def _pop(self, count: int) -> None:
        del self._stack[-count:]
        del self._barriers[-count:]

    # --- where things end; None: the rest of the page is in it --------------------------------------------------------

    def _after(self, end: str, at: int) -> int | None:
        found = self._html.find(end, at)
        return None if found < 0 else found + len(end)

    def _after_comment(self, at: int) -> int | None:
        # `<!-->` and `<!--->` are whole comments; `--!>` ends one, too.
        plain = self._after("-->", at - 2)
        if 0 <= self._odd_end < at:
            self._odd_end = self._html.find("--!>", at)
        odd = None if self._odd_end < 0 else self._odd_end + 4
        return min((end for end in (plain, odd) if end is not None), default=None)

    def _after_raw(self, name: str, at: int) -> int | None:
        end = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(self._html, at)
        return None if end is None else self._after_attributes(end.end())[0]

    def _after_attributes(self, at: int) -> tuple[int | None, int]:
        """Where the tag ends, and how many attributes it has."""
        count = 0
        while count <= MOST_ATTRIBUTES:
            found = _ATTRIBUTE.match(self._html, at)
            assert found is not None  # everything in it may be missing
            at = found.end()
            if found[1] is None:
                self._closes_itself = found[0].endswith("/")  # not the slash of a value: `a=b/`
                return (at + 1 if self._html[at : at + 1] == ">" else None), count
            count += 1
        return at, count


__all__ = ["DEEPEST", "MOST_ATTRIBUTES", "is_too_deep"]
