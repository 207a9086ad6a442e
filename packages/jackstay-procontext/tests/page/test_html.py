"""Conversion of HTML to Markdown, with small examples of the output of documentation generators."""

import time

import pytest
from html_to_markdown import ConversionError
from hypothesis import given
from hypothesis import strategies as st

from procontext.page import markdown_page
from procontext.page._html import html_to_markdown, is_html, needs_javascript

URL = "https://docs.example.com/guide/page.html"


def convert(body: str, head: str = "") -> str:
    return html_to_markdown(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>", URL)


def test_only_content_is_kept() -> None:
    text = convert(
        "<header>Site</header><nav>menu</nav><aside>side</aside><main><h1>T</h1><p>Body</p><nav>on this page</nav>"
        "<button>Copy</button><form>search</form></main><footer>foot</footer><script>x()</script>"
    )
    assert text == "# T\n\nBody\n"


GENERATORS: list[str] = [
    "<div><article role=main>{}</article></div>",
    "<div itemprop=articleBody>{}</div>",
    "<article class=md-content__inner>{}</article>",
    "<main><div class='theme-doc-markdown markdown'>{}</div><div class=theme-doc-toc-mobile>toc</div></main>",
    "<main><div class=vp-doc>{}</div></main>",
    "<main><div class=sl-markdown-content>{}</div></main>",
    "<div id=content><main>{}</main></div>",
    "<div id=content>{}</div>",
    "{}",
]


def test_content_of_each_generator(subtests: pytest.Subtests) -> None:
    for content in GENERATORS:
        with subtests.test(content=content):
            inside = "<h1 id=t>Title</h1><p>The body of the page, which is long enough.</p>"
            text = convert(f"<div class=sphinxsidebar>side</div>{content.format(inside)}")
            assert text == "# Title {#t}\n\nThe body of the page, which is long enough.\n"


def test_list_of_articles_is_kept() -> None:
    text = convert("<main><article><h2>A</h2></article><article><h2>B</h2></article></main>")
    assert "## A" in text
    assert "## B" in text


def test_landmarks_are_removed_without_content_element() -> None:
    text = convert("<header>Site <aside>x</aside></header><h1>T</h1><p>Body</p><footer>foot</footer>")
    assert text == "# T\n\nBody\n"


def test_frameset_has_no_content() -> None:
    assert html_to_markdown("<html><frameset><frame src=a></frameset></html>", URL) == ""


def test_deeply_nested_page_becomes_plain_text(subtests: pytest.Subtests) -> None:
    """The parser would take half a minute."""
    for tag in ["div", "b", "ul><li", "blockquote", "table><tr><td", "span"]:
        with subtests.test(tag=tag):
            html = f"<body><main><p>before &amp; on</p>{f'<{tag}>' * 100_000}deep text"
            assert html_to_markdown(html, URL) == "before & on\ndeep text\n"


def test_unclosed_elements_are_not_deep() -> None:
    assert convert(f"<main><h1>T</h1>{'<p>x<br>' * 2000}</main>").startswith("# T\n\nx")


def test_conversion_error_falls_back_to_plain_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(html: str, options: object) -> None:
        raise ConversionError("unsupported")

    monkeypatch.setattr("procontext.page._html.convert", refuse)
    assert convert("<main><h1>T</h1><p>a &amp; b</p></main>") == "T\na & b\n"
    assert "unsupported" in caplog.text


def test_tab_group_without_panels_is_unchanged() -> None:
    inner = "<div class=tabbed-set><div class=tabbed-labels><label>in</label></div></div>"
    assert "in" in convert(f"<main><h1>T</h1><p>some text that is long enough</p>{inner}</main>")


TAGS = [
    "h1",
    "h2 id=a",
    "pre",
    "code",
    "a href=x",
    "a class=anchor",
    "nav",
    "aside",
    "p",
    "div class=tabbed-set",
    "dl",
]
TAGS += [
    "div class=tabbed-labels",
    "label",
    "div class=tabbed-content",
    "div class=tabbed-block",
    "dt class=sig id=s",
]
TAGS += [
    "table class=highlighttable",
    "td class=code",
    "button",
    "img alt=x",
    "br",
    "span id=q",
    "section id=z",
    "main",
]
TAGS += [
    "p class=admonition-title",
    "article",
    "header",
    "template",
    "svg",
    "math",
    "base href=/x",
    "li role=tab",
]


@given(
    st.lists(
        st.tuples(st.sampled_from(TAGS), st.booleans(), st.sampled_from(["", "t", "# ¶", "`x`", "\n"])),
        max_size=40,
    )
)
def test_arbitrary_nesting_does_not_crash(parts: list[tuple[str, bool, str]]) -> None:
    """Nested nodes are removed and replaced in every order; their memory is managed in C."""
    html = "".join(f"<{tag}>{text}" + (f"</{tag.split()[0]}>" if closes else "") for tag, closes, text in parts)
    assert html_to_markdown(f"<body>{html}", URL).endswith("\n")


def test_empty_main_is_not_the_content() -> None:
    text = convert(f"<main></main><div><p>{'real ' * 50}</p></div>")
    assert "real" in text


CODE = [
    ("<pre><code class=language-python>a = 1\n# c</code></pre>", "```python\na = 1\n# c\n```"),
    (
        "<div class='highlight-bash notranslate'><div class=highlight><pre><span>pip</span> x</pre></div></div>",
        "```bash\npip x\n```",
    ),
    (
        "<div class='highlight-default notranslate'><div class=highlight><pre>x</pre></div></div>",
        "```\nx\n```",
    ),
    ("<div class='language-ts highlight'><pre><code>x</code></pre></div>", "```ts\nx\n```"),
    (
        "<div class=language-js><button>c</button><span class=lang>js</span><pre><code>x</code></pre></div>",
        "```js\nx\n```",
    ),
    ("<pre data-language=css><code>x</code></pre>", "```css\nx\n```"),
    (
        "<pre><code><span class=token-line>a<br></span><span class=token-line>b<br></span></code></pre>",
        "```\na\nb\n```",
    ),
    ("<pre><code>&lt;b&gt; &amp;amp;</code></pre>", "```\n<b> &amp;\n```"),
    (
        "<table class=highlighttable><tr><td class=linenos><pre>1\n2</pre></td>"
        "<td class=code><div><pre>a\nb</pre></div></td></tr></table>",
        "```\na\nb\n```",
    ),
    ("<table class=highlighttable></table><p>x</p>", "x"),
]


def test_code_blocks() -> None:
    for html, expected in CODE:
        assert convert(f"<main><h1>T</h1>{html}</main>") == f"# T\n\n{expected}\n", html


HEADINGS = [
    ("<h2 id=a>A<a class=headerlink href=#a>¶</a></h2>", "## A {#a}"),
    ("<section id=s><span id=x></span><h2>A</h2></section>", "## A {#s}"),
    ("<section id=s><p>before</p><h2>A</h2></section>", "before\n\n## A"),
    ("<h2><a name=n></a>A</h2>", "## A {#n}"),
    ("<h2 id=a tabindex=-1>A <a class=anchor href=#a>#</a></h2>", "## A {#a}"),
    ("<h2 id=a><a class=anchor href=#a>A <code>b_c</code></a></h2>", "## A `b_c` {#a}"),
    ("<h2>A &lt;b&gt; ¶</h2>", "## A <b>"),
    ("<h2 id=e></h2><p>x</p>", "x"),
]


def test_headings() -> None:
    for html, expected in HEADINGS:
        assert convert(f"<main><h1>T</h1>{html}</main>") == f"# T\n\n{expected}\n", html


def test_sphinx_signature_becomes_a_heading() -> None:
    text = convert(
        "<main><h1>API</h1><dl><dt class='sig sig-object' id=m.f><span>m.</span><span>f</span>(<em>x</em>)"
        "<a class=viewcode-link href=x>[source]</a></dt><dd><p>Does.</p></dd></dl><dl><dt class=sig id=e></dt></dl>"
        "</main>"
    )
    headings = markdown_page(URL, text).headings
    assert [(heading.text, heading.anchor) for heading in headings] == [("API", ""), ("m.f(x)", "m.f")]
    assert "Does." in text


def test_links_and_images() -> None:
    text = convert(
        "<main><h1>T</h1><p><a href=../other.html#x>o</a> <a href=#y>y</a> <a href='javascript:z()'>z</a> <a>n</a>"
        " <a href='http://[bad'>b</a> <img src=p.png alt='A plan'><img src=q.png></p></main>"
    )
    assert "[o](https://docs.example.com/other.html#x)" in text
    assert "[y](https://docs.example.com/guide/page.html#y)" in text
    assert " z n b [A plan]" in text.replace("\\", "")
    assert "q.png" not in text


def test_base_element() -> None:
    assert "(https://docs.example.com/b/x)" in convert("<main><h1>T</h1><a href=x>x</a></main>", "<base href=/b/>")
    assert "/guide/x)" in convert("<main><h1>T</h1><a href=x>x</a></main>", "<base href='http://[bad'>")


def test_title_replaces_missing_heading() -> None:
    assert convert("<main><p>x</p></main>", "<title>The  title</title>") == "# The title\n\nx\n"
    assert convert("<main><p>x</p></main>") == "x\n"


def test_tables_notes_and_tabs() -> None:
    text = convert(
        "<main><h1>T</h1><table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>x|y</td></tr></table>"
        "<div class='admonition note'><p class=admonition-title>Note</p><p>n</p></div>"
        "<div class=tabbed-set><input><div class=tabbed-labels><label>pip</label><label>uv</label></div>"
        "<div class=tabbed-content><div class=tabbed-block><p>p1</p></div><div class=tabbed-block><p>p2</p></div></div>"
        "</div>"
        "<div class=tabs-container><ul role=tablist><li role=tab>one</li></ul><div role=tabpanel hidden>o1</div></div>"
        "<div class=vp-code-group><div class=tabs><input><label>npm</label></div><div class=blocks><p>v1</p></div>"
        "</div></main>"
    )
    assert "| A | B |\n| --- | --- |\n| 1 | x\\|y |" in text
    assert "**Note**\n\nn" in text
    assert "**pip**\n\np1\n\n**uv**\n\np2" in text
    assert "**one**\n\no1" in text
    assert "**npm**\n\nv1" in text


LARGE_TABLES: list[str] = [
    "<table>" + "<tr><td colspan=9999>x</td></tr>" * 3000 + "</table>",
    "<table><tr>" + "<td>x</td>" * 1500 + "</tr>" + "<tr><td>x</td></tr>" * 1500 + "</table>",
    "<table><tr>" + "<td rowspan=9999>x</td>" * 1500 + "</tr>" + "<tr><td>x</td></tr>" * 1500 + "</table>",
    "<table><tr><td colspan=1000>x</td></tr></table>" * 3000,
    "<table><tr><td colspan=99999999999999999999>x</td></tr></table>" * 3000,
    "<table><tr><td colspan=٣>x</td></tr></table>" * 3000,
]


def test_size_of_tables_is_limited(subtests: pytest.Subtests) -> None:
    """A page of ten megabytes must not become gigabytes: such tables are written as lines."""
    for number, table in enumerate(LARGE_TABLES):
        with subtests.test(number=number):
            text = convert(f"<main><h1>T</h1>{table}</main>")
            assert len(text) < 10 * len(table) + 400_000
            assert text.count("x") >= 3000


def test_size_of_links_is_limited(subtests: pytest.Subtests) -> None:
    """With a long base URL, links beyond the limit become text. A base longer than a URL is ignored."""
    for length, is_used in [(1900, True), (2100, False)]:
        with subtests.test(length=length):
            base = f"https://x.example/{'a' * length}/"
            links = "<p><a href=b>word</a></p>" * 3000
            html = f"<html><head><base href='{base}'></head><body><main>{links}</main></body></html>"
            text = html_to_markdown(html, URL)
            assert len(text) < len(html) + 3_000_000
            assert text.count("word") == 3000
            assert (f"[word]({base}b)" in text) is is_used


def test_wide_title_row_over_a_small_table() -> None:
    text = convert(
        "<main><h1>T</h1><table><tr><th colspan=30>All</th></tr><tr><td>1</td><td>2</td></tr></table></main>"
    )
    assert "| All |" in text
    assert "| 1 | 2 |" in text


def test_text_that_starts_with_hash_is_not_a_heading() -> None:
    text = convert("<main><h1>T</h1><p># no heading</p></main>")
    assert [heading.text for heading in markdown_page(URL, text).headings] == ["T"]


BROKEN_HTML: list[str] = [
    "",
    "   ",
    "<html></html>",
    "<p>unclosed <b>x",
    "\0",
    "<" * 1000,
    "<div>" * 3000,
]


def test_broken_html() -> None:
    for html in BROKEN_HTML:
        assert isinstance(html_to_markdown(html, URL), str), html


HTML_STARTS: list[tuple[str, bool]] = [
    ("<!DOCTYPE html>\n<html lang=en>", True),
    ("\ufeff  <html>", True),
    ("<?xml version='1.0'?><html xmlns=x>", True),
    ("<?xml version='1.0'?><urlset>", False),
    ("# Markdown with <html> in it", False),
    ("<p align=center>", False),
]


def test_is_html() -> None:
    for text, expected in HTML_STARTS:
        assert is_html(text) is expected, text


# --- output that would mislead an agent -------------------------------------------------------------------------------


def test_nested_tabs_keep_their_labels() -> None:
    """Code must not be under the label of another tab."""

    def tabs(*rows: tuple[str, str]) -> str:
        labels = "".join(f"<label>{name}</label>" for name, _ in rows)
        blocks = "".join(f"<div class=tabbed-block>{panel}</div>" for _, panel in rows)
        return (
            f"<div class=tabbed-set><div class=tabbed-labels>{labels}</div>"
            f"<div class=tabbed-content>{blocks}</div></div>"
        )

    inner = tabs(("pip", "<p>pip install</p>"), ("uv", "<p>uv add</p>"))
    text = convert(f"<main><h1>T</h1>{tabs(('Python', inner), ('Rust', '<p>cargo add</p>'))}</main>")
    assert text.split("\n\n") == [
        "# T",
        "**Python**",
        "**pip**",
        "pip install",
        "**uv**",
        "uv add",
        "**Rust**",
        "cargo add\n",
    ]


def test_number_of_tabs_is_limited() -> None:
    group = "<div class=tabbed-set><div class=tabbed-labels><label>L</label></div><div class=tabbed-content>"
    tab = f"{group}<div class=tabbed-block>x</div></div></div>"
    assert "**L**" not in convert(f"<main><h1>T</h1>{tab * 2001}</main>")
    deep = f"{group}<div class=tabbed-block>" * 8 + "x" + "</div></div></div>" * 8
    assert "**L**" not in convert(f"<main><h1>T</h1>{deep}</main>")


def test_parameter_name_and_type_are_separated() -> None:
    """numpydoc: the style sheet of the theme adds the colon."""
    row = "<dt><strong>x</strong><span class=classifier>array_like</span></dt><dd>Elements.</dd>"
    assert "**x** : array_like" in convert(f"<main><h1>T</h1><dl>{row}</dl></main>")


def test_titles_of_notes_are_bold() -> None:
    text = convert(
        "<main><h1>T</h1><p class=rubric>Examples</p><div class=admonitionHeading_Gvgb>tip</div><p>x</p></main>"
    )
    assert "**Examples**\n\n**tip**" in text  # Docusaurus appends a hash to its classes


def test_section_of_a_class_contains_its_methods() -> None:
    """Sphinx: a class is one level below its heading, and its methods one level below the class, up to level 4."""

    def term(name: str, inside: str = "") -> str:
        return f"<dl class=py><dt class=sig id=h.{name}>{name}()<a class=headerlink>¶</a></dt><dd>{inside}</dd></dl>"

    documented = term("Boat", term("moor", term("line", term("knot")))) + term("launch")
    text = convert(f"<main><h1 id=api>API</h1><h2 id=b>Boats</h2>{documented}</main>")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# API {#api}",
        "## Boats {#b}",
        "### `Boat()` {#h.Boat}",
        "#### `moor()` {#h.moor}",
        "#### `line()` {#h.line}",
        "#### `knot()` {#h.knot}",
        "### `launch()` {#h.launch}",
    ]
    assert "## `Boat()` {#h.Boat}" in convert(f"<main><p>x</p>{term('Boat')}</main>")


def test_collapsed_source_of_mkdocstrings_is_removed() -> None:
    """The source would be most of the page and use the output budget."""
    collapsed = "<details class=mkdocstrings-source><summary>Source code</summary><pre>def f(): ...</pre></details>"
    assert convert(f"<main><h1>T</h1><p>Does f.</p>{collapsed}</main>") == "# T\n\nDoes f.\n"


def test_level_five_headings() -> None:
    assert "##### Five {#five}" in convert("<main><h1>T</h1><h5 id=five><a href=#x>Five</a></h5><p>x</p></main>")


def test_task_lists() -> None:
    boxes = "<li><input type=checkbox disabled checked> done</li><li><input type=checkbox disabled> open</li>"
    text = convert(f"<main><h1>T</h1><ul>{boxes}</ul></main>")
    assert "- [x] done\n- [ ] open" in text


def test_heading_in_a_summary() -> None:
    """rustdoc and Docusaurus have headings in collapsed sections."""
    section = "<section id=method.f><a class=anchor href=#method.f>§</a><h4>fn f()</h4></section>"
    text = convert(f"<main><h1>T</h1><details open><summary>{section}</summary><p>Does f.</p></details></main>")
    assert "\n#### fn f() {#method.f}\n" in text
    assert "**" not in text
    assert "§" not in text


HOSTILE_PAGES: list[str] = [
    f"<section>{'<h1></h1>' * 20_000}x</section>",
    f"{'<div class=tabbed-set>' * 400}{'<div class=tabbed-labels><label>x</label></div>' * 20_000}",
    f"{'<div a=</div>>' * 50_000}x",
    f"<p {' '.join(f'a{number}' for number in range(50_000))}>x",
]


@pytest.mark.no_cover  # it measures time
def test_hostile_pages_take_linear_time(subtests: pytest.Subtests) -> None:
    """With quadratic time, each of these would take minutes."""
    for number, html in enumerate(HOSTILE_PAGES):
        with subtests.test(number=number):
            started = time.process_time()
            html_to_markdown(f"<html><body>{html}", URL)
            assert time.process_time() - started < 10


def test_links_without_titles_and_without_types_of_other_projects() -> None:
    """They are more than a tenth of the tokens of a reference page."""
    html = (
        '<main><h1>T</h1><p><a href="/x" title="A long title">x</a> of <a href="https://docs.python.example/#int"'
        ' title="(in Python v3.14)">int</a></p></main>'
    )
    assert html_to_markdown(html, "https://a.example/") == "# T\n\n[x](https://a.example/x) of int\n"


def test_github_page() -> None:
    """The anchor of a heading is the link behind it, and the language of code is in a class of its own."""
    page = """<article class="markdown-body"><div class="markdown-heading"><h2 class="heading-element">Use it</h2>
    <a id="user-content-use-it" class="anchor" aria-label="Permalink: Use it" href="#use-it"><svg></svg></a></div>
    <div class="highlight highlight-source-js"><pre>moor()</pre></div></article>"""
    assert convert(page) == "## Use it {#use-it}\n\n```js\nmoor()\n```\n"


def test_items_with_headings_are_sections() -> None:
    """Lists in which only some items have headings stay lists."""
    sections = "<ul><!-- Javadoc --><li><h2>One</h2><p>Text</p></li><li><h2>Two</h2></li></ul>"
    assert convert(f"<main><h1>T</h1>{sections}</main>") == "# T\n\n## One\n\nText\n\n## Two\n"
    assert convert("<main><h1>T</h1><ul><li><h2>One</h2></li><li>x</li></ul></main>").startswith("# T\n\n- ")


def test_terms_of_definition_lists_are_bold() -> None:
    lists = "<dl><dt>berth</dt><dd>A place.</dd><dt><b>pier</b></dt><dd>Many.</dd></dl>"
    assert convert(f"<main><h1>T</h1>{lists}</main>") == "# T\n\n**berth**\n\nA place.\n\n**pier**\n\nMany.\n"


def test_theme_of_django() -> None:
    page = """<body><div id="hd"><h1>Django documentation</h1></div><div id="bd"><div id="yui-main"><section
    id="models"><h1>Models</h1><p>Text</p></section></div><div id="sidebar"><h3>Last update:</h3></div></div></body>"""
    assert convert(page) == "# Models {#models}\n\nText\n"


def test_pages_that_scripts_write() -> None:
    script = "<script src=app.js></script>"
    for body, expected in (
        ("<div id=root></div><noscript>Please enable JavaScript to run this app.</noscript>", True),
        ("<div id=root>Loading ...</div>", True),
        ("<nav><a href=a>All pages</a> <a href=b>Guide and more</a></nav><main><h1>Empty</h1></main>", False),
        ("<main><h1>Guide</h1><p>A page with a few words.</p></main>", False),
    ):
        page = f"<!doctype html><html><head><title>T</title></head><body>{body}{script}</body></html>"
        assert needs_javascript(page, convert(page)) is expected, body
        assert not needs_javascript(page.replace(script, ""), convert(page))
    assert not needs_javascript("<html><script></script><frameset></frameset></html>", "")
