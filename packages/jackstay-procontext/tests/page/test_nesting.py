"""How deep a page is nested (design, section 4: a hostile page), held against what the parser itself makes of it."""

import random
import time

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from procontext.page import _nesting
from procontext.page._nesting import MOST_ATTRIBUTES, _Reading, is_too_deep

MANY = 3_000

# Each is repeated: it leaves an element open, and looks as if it did not.
DISGUISES = [
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


@pytest.mark.parametrize("unit", DISGUISES)
def test_a_depth_in_disguise_is_found(unit: str) -> None:
    assert is_too_deep(unit * MANY)
    assert is_too_deep("</b>" * MANY + unit * MANY)


@pytest.mark.parametrize(
    "unit",
    [
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
    ],
)
def test_what_is_closed_by_its_own_rules_is_not_deep(unit: str) -> None:
    assert not is_too_deep(unit * MANY)


@pytest.mark.parametrize(
    "end", ["<!--", "<div", '<div a="', "<script>", "<plaintext>", "<!x", "<svg><![CDATA[", "<"]
)
def test_what_never_ends_has_no_elements_in_it(end: str) -> None:
    assert not is_too_deep(f"<p>x{end}{'<div '}")


@pytest.mark.parametrize(
    "beginning", ["<svg a=b/><title>", "<svg><title>", "<div><svg></div><title>", "<svg/><p><svg><desc>"]
)
def test_a_text_that_is_none_hides_nothing(beginning: str) -> None:
    """In SVG a title holds elements; and the slash of an unquoted value closes no tag."""
    assert is_too_deep(beginning + "<div>" * MANY)


def test_what_cannot_be_said_without_parsing_counts_as_too_deep() -> None:
    assert is_too_deep("<svg><p><![CDATA[ x ]]>")
    assert not is_too_deep("<svg><plaintext>x</plaintext></svg>")


def test_a_tag_with_more_attributes_than_any_is_refused() -> None:
    """The parser compares each attribute with all before it."""
    assert not is_too_deep(f"<p {' '.join(f'a{n}=1' for n in range(MOST_ATTRIBUTES))}>")
    assert is_too_deep(f"<p {' '.join(f'a{n}' for n in range(MOST_ATTRIBUTES + 1))}>")


@pytest.mark.parametrize(
    "unit", ["<!---->", "<!--", "<a ", '<a b="', "<", "</", "<svg>", '<a b="c">x</a>', "<script>"]
)
def test_counting_takes_time_by_the_length_and_not_by_its_square(unit: str) -> None:
    began = time.process_time()
    is_too_deep(unit * (500_000 // len(unit)))
    assert time.process_time() - began < 5  # by the square it is minutes


TAGS = (
    "div b a svg path g title desc foreignObject table tr td p li ul span script style textarea button select form h1 h2"
    " section template rt ruby body html dd dl nobr"
)
ODD = (
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


def soup(chance: random.Random) -> str:
    tags = chance.sample(TAGS.split(), chance.randint(1, 4))
    parts = (chance.choice((*("<{}>",) * 12, *("</{}>",) * 10, *ODD)) for _ in range(chance.randint(1, 7)))
    return "".join(part.format(chance.choice(tags), chance.choice(tags)) for part in parts)


def parsed_depth(html: str) -> int:
    root = LexborHTMLParser(html).root
    assert root is not None
    deepest, left = 0, [(root, 1)]
    while left:
        node, depth = left.pop()
        deepest = max(deepest, depth)
        child: LexborNode | None = node.child
        while child is not None:
            if child.is_element_node:
                left.append((child, depth + 1))
            child = child.next
    return deepest


def counted_depth(html: str) -> int:
    """The depth at which it would still be refused."""
    low, high = 0, 1000
    while low < high:
        middle = (low + high) // 2
        _nesting.DEEPEST = middle  # type: ignore[misc]  # the test looks for the bound
        low, high = (middle + 1, high) if _Reading(html).is_too_deep() else (low, middle)
    return low


@pytest.mark.parametrize("seed", range(80))
def test_the_parser_never_finds_a_page_much_deeper(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that are not counted stand between those that are: six of a table. Nothing nests without being counted."""
    monkeypatch.setattr(_nesting, "DEEPEST", _nesting.DEEPEST)
    chance = random.Random(seed)
    html = f"{chance.choice(('', '<!doctype html>'))}{soup(chance)}{soup(chance) * 40}"
    assert parsed_depth(html) <= 6 * counted_depth(html) + 30
