"""The nesting estimate of hostile pages, compared with the depth that the parser finds."""

import random
import time

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from procontext.page import _nesting
from procontext.page._nesting import MAX_ATTRIBUTES, _TagScanner, is_too_deep

MANY = 1_500

# Fragments that leave an element open but appear to close it. The tests repeat them.
HIDDEN_DEPTHS = [
    "<div>",
    '<div a="</div>">',
    "<div a='</div>'>",
    '<div a="><div></div></div>">',
    '<div ">',
    '<div =">',
    "<div a=b</div>>",
    "<div><!--</div>-->",
    "<!--><div>",
    "<div><!x</div>",
    "<div><?</div>",
    "<div></ </div>",
    "<div><script></div></script>",
    "<div><title></div></title>",
    "<div><STYLE></div></style >",
    "<div><table></div></table>",
    "<form><div></form>",
    "<h1><div><h2></h1></div>",
    "<span><li></span></li>",
    "<dd><li>",
    "<rt>",
    "<path>",
    "<path/>",
    "<svg><b/>",
    "<svg></svg><path/>",
    "<svg><title></title></svg><path/>",
    "<div><svg></div><path/>",
    "<svg><desc><table><td></desc></table><path/>",
    "<optgroup>",
    "<b><i></b>",
]


def test_hidden_depth_is_found(subtests: pytest.Subtests) -> None:
    for unit in HIDDEN_DEPTHS:
        with subtests.test(unit=unit):
            assert is_too_deep(unit * MANY)
            assert is_too_deep("</b>" * MANY + unit * MANY)


IMPLICITLY_CLOSED: list[str] = [
    "<p>x<br>",
    "<ul><li>a<li>b</ul>",
    "<dl><dt>a<dd>b</dl>",
    "<table><tr><td><p>a<td>b</table>",
    "<div><span></div>",
    "<my-tabs><p>a</p></my-tabs>",
    "<svg><title>Icon</title><path d='M0'/><g><path/></g></svg>",
    "<svg><foreignObject><div><p>a</p><br></div></foreignObject><rect/></svg>",
    "<svg><style><![CDATA[ a > b ]]></style><path/></svg>",
    "<script>'<div><div>'</script>",
    "<!-- <div> --><!--><!---><!-- <div> --!>",
    "<textarea><div></textarea>",
    "<math><mi>x</mi></math>",
    "<svg/><img><input disabled>",
    "<![CDATA[ <div></div>",
    "<div>\n</div\n></b></p></td>",
]


def test_implicitly_closed_elements_are_not_deep() -> None:
    for unit in IMPLICITLY_CLOSED:
        assert not is_too_deep(unit * MANY), unit


UNTERMINATED: list[str] = [
    "<!--",
    "<div",
    '<div a="',
    "<script>",
    "<plaintext>",
    "<!x",
    "<svg><![CDATA[",
    "<",
]


def test_unterminated_constructs_contain_no_elements() -> None:
    for end in UNTERMINATED:
        assert not is_too_deep(f"<p>x{end}{'<div '}"), end


FOREIGN_TITLES: list[str] = [
    "<svg a=b/><title>",
    "<svg><title>",
    "<div><svg></div><title>",
    "<svg/><p><svg><desc>",
]


def test_foreign_title_contains_elements() -> None:
    """In SVG, `title` contains elements; and the slash of an unquoted value does not close a tag."""
    for beginning in FOREIGN_TITLES:
        assert is_too_deep(beginning + "<div>" * MANY), beginning


def test_ambiguous_content_counts_as_too_deep() -> None:
    assert is_too_deep("<svg><p><![CDATA[ x ]]>")
    assert not is_too_deep("<svg><plaintext>x</plaintext></svg>")


def test_too_many_attributes() -> None:
    """The parser compares each attribute with all before it."""
    assert not is_too_deep(f"<p {' '.join(f'a{n}=1' for n in range(MAX_ATTRIBUTES))}>")
    assert is_too_deep(f"<p {' '.join(f'a{n}' for n in range(MAX_ATTRIBUTES + 1))}>")


REPEATED_STARTS: list[str] = [
    "<!---->",
    "<!--",
    "<a ",
    '<a b="',
    "<",
    "</",
    "<svg>",
    '<a b="c">x</a>',
    "<script>",
]


@pytest.mark.no_cover  # it measures time
def test_linear_time(subtests: pytest.Subtests) -> None:
    for unit in REPEATED_STARTS:
        with subtests.test(unit=unit):
            started = time.process_time()
            is_too_deep(unit * (500_000 // len(unit)))
            assert time.process_time() - started < 5  # quadratic time would be minutes


TAGS = (
    "div b a svg path g title desc foreignObject table tr td p li ul span script style textarea button select form"
    " h1 h2 section template rt ruby body html dd dl nobr"
)
FRAGMENTS = (
    "<{} a=b/>",
    "<{} a=</{}>>",
    '<{} a="</{}>">',
    '<{} ">',
    '<{} =">',
    "<{}/>",
    "<!-->",
    "<!--",
    "-->",
    "--!>",
    "<!x",
    "<![CDATA[",
    "]]>",
    "x",
)


def tag_soup(rng: random.Random) -> str:
    tags = rng.sample(TAGS.split(), rng.randint(1, 4))
    parts = (rng.choice((*("<{}>",) * 12, *("</{}>",) * 10, *FRAGMENTS)) for _ in range(rng.randint(1, 7)))
    return "".join(part.format(rng.choice(tags), rng.choice(tags)) for part in parts)


def parsed_depth(html: str) -> int:
    root = LexborHTMLParser(html).root
    assert root is not None
    deepest, pending = 0, [(root, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        child: LexborNode | None = node.child
        while child is not None:
            if child.is_element_node:
                pending.append((child, depth + 1))
            child = child.next
    return deepest


def counted_depth(html: str) -> int:
    """Return the depth at which the page would still be rejected."""
    low, high = 0, 1000
    while low < high:
        middle = (low + high) // 2
        _nesting.MAX_DEPTH = middle  # type: ignore[misc]  # the test searches the limit
        low, high = (middle + 1, high) if _TagScanner(html).is_too_deep() else (low, middle)
    return low


def test_estimate_is_not_below_the_parsed_depth(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    """Up to six table elements that are not counted may be between two counted elements."""
    monkeypatch.setattr(_nesting, "MAX_DEPTH", _nesting.MAX_DEPTH)
    for seed in range(80):
        with subtests.test(seed=seed):
            rng = random.Random(seed)
            html = f"{rng.choice(('', '<!doctype html>'))}{tag_soup(rng)}{tag_soup(rng) * 40}"
            assert parsed_depth(html) <= 6 * counted_depth(html) + 30
