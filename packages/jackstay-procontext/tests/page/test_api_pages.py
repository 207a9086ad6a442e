"""Pages of API documentation generators; test_generated_sites.py has complete ones."""

from procontext.page._html import html_to_markdown

URL = "https://docs.example.com/Pier.html"


def test_summary_table_with_a_missing_cell_stays_text() -> None:
    head = "<div class=table-header>Field</div><div class=table-header>Description</div>"
    page = f"<main><h1>T</h1><div class=summary-table>{head}<div>boats</div></div></main>"
    assert "|" not in html_to_markdown(page, URL)
    assert "boats" in html_to_markdown(page, URL)
    complete = page.replace("<div>boats</div>", "<div>boats</div><div><p>Boats now.</p></div>")
    assert "| boats | Boats now. |" in html_to_markdown(complete, URL)


def test_member_without_an_anchor_stays_text() -> None:
    page = "<main class=pdoc><h1>T</h1><section><div class=attr>x: int</div></section></main>"
    assert html_to_markdown(page, URL) == "# T\n\nx: int\n"


def test_index_of_a_page_without_members_is_kept() -> None:
    """Old versions of TypeDoc list the members of a module only there."""
    index = "<section class=tsd-index-panel><h3>Classes</h3><a href=a.html>A</a></section>"
    assert "[A](" in html_to_markdown(f"<div class=col-content><h1>T</h1>{index}</div>", URL)
    assert "[A](" not in html_to_markdown(
        f"<div class=col-content><h1>T</h1>{index}<section class=tsd-member><h3>x</h3></section></div>", URL
    )
