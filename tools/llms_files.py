"""Write the site for language models: `llms.txt` (https://llmstxt.org), `llms-full.txt`, and Markdown files.

`llms.txt` lists the pages in reading order. `llms-full.txt` contains all of them and the API reference.
"""

import re
from pathlib import Path
from typing import NamedTuple

# Code, which contains no links, and Markdown links.
CODE = re.compile(r"^ *(```+).*?^ *\1 *$|(`+)[^`].*?\2|<!--.*?-->", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


class Document(NamedTuple):
    """A page: its title, a description, its file, its Markdown, and the same with links relative to the root."""

    title: str
    note: str
    file: str
    text: str
    text_from_root: str


class Section(NamedTuple):
    """A heading of `llms.txt` and its pages."""

    title: str
    documents: list[Document]


def index_text(title: str, summary: str, sections: list[Section]) -> str:
    """Return `llms.txt`: a title, a summary as a quotation, and sections of links."""
    parts = [
        f"# {title}",
        f"> {' '.join(summary.split())}",
        "Everything in one file: [llms-full.txt](llms-full.txt).",
    ]
    for section in sections:
        lines = [f"- [{each.title}]({each.file}){': ' if each.note else ''}{each.note}" for each in section.documents]
        parts += [f"## {section.title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def full_text(sections: list[Section]) -> str:
    """Return `llms-full.txt`: every page, each after a comment with the name of its file."""
    documents = [each for section in sections for each in section.documents]
    return "\n".join(f"{marker(each.file)}\n\n{each.text_from_root.strip()}\n" for each in documents)


def marker(file: str) -> str:
    """Return the line before a page in `llms-full.txt`."""
    return f"<!-- {file} -->"


def write(site: Path, title: str, summary: str, sections: list[Section]) -> None:
    """Write both files and the Markdown of every page into a built site."""
    (site / "llms.txt").write_text(index_text(title, summary, sections), encoding="utf-8")
    (site / "llms-full.txt").write_text(full_text(sections), encoding="utf-8")
    for section in sections:
        for each in section.documents:
            (site / each.file).parent.mkdir(parents=True, exist_ok=True)
            (site / each.file).write_text(each.text, encoding="utf-8")


def check(site: Path) -> list[str]:
    """Return the problems of these files.

    Problems are links to files that do not exist, and pages that are missing in one of the files.
    """
    index = (site / "llms.txt").read_text(encoding="utf-8")
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    listed = {target for target in LINK.findall(index) if target.endswith(".md")}
    flaws = [
        f"llms-full.txt: {name}: the page is missing"
        for name in sorted(listed)
        if f"\n{marker(name)}\n" not in f"\n{full}"
    ]
    for file in (site / "llms.txt", site / "llms-full.txt", *sorted(site.rglob("*.md"))):
        shown = file.relative_to(site).as_posix()
        if file.suffix == ".md" and shown not in listed:
            flaws.append(f"llms.txt: {shown}: the page is missing")
        for target in dict.fromkeys(LINK.findall(CODE.sub("", file.read_text(encoding="utf-8")))):
            path = target.partition("#")[0]
            if not re.match(r"[a-zA-Z][\w+.-]*:", target) and path and not (file.parent / path).is_file():
                flaws.append(f"{shown}: {target}: there is no such file")
    return flaws
