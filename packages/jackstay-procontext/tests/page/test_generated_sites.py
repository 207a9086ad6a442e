"""Sites built by Sphinx with furo, by MkDocs with Material and by other generators, read over loopback."""

import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from procontext.models import Library
from procontext.page import LibraryDocuments, section, window
from scripted.documentation import LoopbackNetwork, Rows, Site, folder, settings, text

SPHINX = {
    "conf.py": 'project = "Harbour"\nhtml_theme = "furo"\n',
    "index.rst": "Harbour\n=======\n\nTie boats up.\n\n.. toctree::\n\n   guide\n   api\n",
    "guide.rst": """
Guide
=====

Install it first.

.. code-block:: bash

   # a comment, no heading
   pip install harbour

Tying up
--------

.. note:: Use two lines.

.. code-block:: python
   :linenos:

   from harbour import moor

   moor("boat", lines=2)

.. list-table::
   :header-rows: 1

   * - Name
     - Length
   * - bow
     - 10

See :func:`harbour.moor` and :doc:`api`.
""",
    "api.rst": """
API
===

.. py:module:: harbour

.. py:function:: moor(boat: str, *, lines: int = 2) -> bool

   Tie a boat up.

   :param boat: its name

.. py:class:: Pier(length)

   A pier.

   .. py:method:: berths() -> list[str]

      All berths.
""",
}

MATERIAL = {
    "mkdocs.yml": """
site_name: Harbour
site_url: https://harbour.example/docs/
theme: {name: material, font: false}
plugins: [search]
markdown_extensions:
  - admonition
  - tables
  - toc: {permalink: true}
  - pymdownx.highlight: {pygments_lang_class: true}
  - pymdownx.superfences
  - pymdownx.tabbed: {alternate_style: true}
""",
    "docs/index.md": """# Harbour

Tie boats up.

## Tying up

!!! note
    Use two lines.

```python
# a comment, no heading
from harbour import moor
```

=== "pip"

    ```bash
    pip install harbour
    ```

=== "uv"

    ```bash
    uv add harbour
    ```

| Name | Length |
| ---- | ------ |
| bow  | 10     |
""",
    "docs/guide.md": "# Guide\n\nSee [home](index.md#tying-up).\n\n## Leaving\n\nLet go.\n",
}


def write_files(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.fixture(scope="module")
def sphinx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = write_files(tmp_path_factory.mktemp("sphinx"), SPHINX)
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", source, source / "out"], check=True)
    return source / "out"


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = write_files(tmp_path_factory.mktemp("material"), MATERIAL)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "-q",
        "-f",
        source / "mkdocs.yml",
        "-d",
        source / "out",
    ]
    subprocess.run(command, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return source / "out"


def harbour(site: Site) -> Library:
    return Library(id="harbour", name="Harbour", docs_url=f"{site.url}/")


async def test_sphinx_site_with_furo(sphinx: Path, tmp_path: Path) -> None:
    async with Site(folder(sphinx)) as site:
        documents = await LibraryDocuments.open(
            settings(tmp_path, site), Rows(harbour(site)), network=LoopbackNetwork()
        )
        index = await documents.index(harbour(site))
        assert index.source == "objects.inv"
        assert f"- [Guide]({site.url}/guide.html)" in index.text
        assert f"- [harbour.moor]({site.url}/api.html#harbour.moor): function" in index.text
        assert (await documents.prefetch(harbour(site))).stored == 3
        assert "\n".join((await documents.page(f"{site.url}/guide.html")).lines) == (
            "# Guide {#guide}\n\nInstall it first.\n\n"
            "```bash\n# a comment, no heading\npip install harbour\n```\n\n"
            "## Tying up {#tying-up}\n\n**Note**\n\nUse two lines.\n\n"
            '```python\nfrom harbour import moor\n\nmoor("boat", lines=2)\n```\n\n'
            "| Name | Length |\n| --- | --- |\n| bow | 10 |\n\n"
            f"See [`harbour.moor()`]({site.url}/api.html#harbour.moor) and [API]({site.url}/api.html)."
        )
        hits = await documents.search("harbour", "berths")
        assert hits[0].url == f"{site.url}/api.html"
        assert hits[0].heading_path[-1] == "berths() → list[str]"
        api = await documents.page(f"{site.url}/api.html")
        span = section(api, "harbour.moor")
        assert span is not None
        assert "Tie a boat up." in window(api, *span).content
        assert "A pier." not in window(api, *span).content
        await documents.close()


async def test_mkdocs_material_site(material: Path, tmp_path: Path) -> None:
    async with Site(folder(material)) as site:
        documents = await LibraryDocuments.open(
            settings(tmp_path, site), Rows(harbour(site)), network=LoopbackNetwork()
        )
        index = await documents.index(harbour(site))
        assert index.source == "search_index.json"
        assert index.text == (
            "# Harbour\n\n## Pages\n\n"
            f"- [Harbour]({site.url}/)\n  - [Tying up]({site.url}/#tying-up)\n"
            f"- [Guide]({site.url}/guide/)\n  - [Leaving]({site.url}/guide/#leaving)\n"
        )
        assert (await documents.prefetch(harbour(site))).stored == 2
        assert "\n".join((await documents.page(f"{site.url}/")).lines) == (
            "# Harbour {#harbour}\n\nTie boats up.\n\n## Tying up {#tying-up}\n\n**Note**\n\nUse two lines.\n\n"
            "```python\n# a comment, no heading\nfrom harbour import moor\n```\n\n"
            "**pip**\n\n```bash\npip install harbour\n```\n\n**uv**\n\n```bash\nuv add harbour\n```\n\n"
            "| Name | Length |\n| --- | --- |\n| bow | 10 |"
        )
        assert [hit.heading_path for hit in await documents.search("harbour", "let go")] == [("Guide", "Leaving")]
        await documents.close()


@pytest.mark.parametrize(
    ("without", "source"),
    [
        (("/search/search_index.json",), "sitemap.xml"),
        (("/search/search_index.json", "/sitemap.xml"), "navigation"),
    ],
)
async def test_site_without_search_index(material: Path, tmp_path: Path, without: tuple[str, ...], source: str) -> None:
    routes = folder(material)
    for path in without:
        del routes[path]
    async with Site(routes) as site:
        if "/sitemap.xml" in routes:  # contains the URL of the published site
            published = (material / "sitemap.xml").read_text()
            site.routes["/sitemap.xml"] = text(published.replace("https://harbour.example/docs", site.url), "text/xml")
        documents = await LibraryDocuments.open(
            settings(tmp_path, site), Rows(harbour(site)), network=LoopbackNetwork()
        )
        index = await documents.index(harbour(site))
        assert index.source == source
        assert f"]({site.url}/guide/)" in index.text
        await documents.close()


# --- other generators -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sites that make_generated_sites.sh built."""
    root = tmp_path_factory.mktemp("generated")
    with zipfile.ZipFile(Path(__file__).with_name("generated_sites.zip")) as archive:
        archive.extractall(root)
    return root


@asynccontextmanager
async def served(root: Path, tmp_path: Path, front: str = "") -> AsyncIterator[tuple[LibraryDocuments, Library]]:
    async with Site(folder(root)) as site:
        library = Library(id="harbour", name="Harbour", docs_url=f"{site.url}/{front}")
        documents = await LibraryDocuments.open(settings(tmp_path, site), Rows(library), network=LoopbackNetwork())
        try:
            yield documents, library
        finally:
            await documents.close()


async def page_text(documents: LibraryDocuments, library: Library, path: str) -> str:
    """Return a page as Markdown, with addresses relative to the front page."""
    url = library.docs_url or ""
    return "\n".join((await documents.page(f"{url}{path}")).lines).replace(url, "")


async def index_text(documents: LibraryDocuments, library: Library) -> tuple[str, str]:
    found = await documents.index(library)
    return found.source, found.text.replace(library.docs_url or "", "")


async def test_javadoc(generated: Path, tmp_path: Path) -> None:
    """The front page refers to another without `url=`, and the list of classes is above that one."""
    async with served(generated / "javadoc", tmp_path) as (documents, library):
        assert await index_text(documents, library) == (
            "allclasses-index.html",
            "# Harbour\n\n## Packages\n\n- [harbour](harbour/package-summary.html)\n\n## API\n\n"
            "- [harbour.DockException](harbour/DockException.html): class\n"
            "- [harbour.Pier](harbour/Pier.html): class\n",
        )
        text = await page_text(documents, library, "harbour/Pier.html")
        assert "\n```java\npublic class Pier\nextends Object\n```\n" in text
        assert "| Modifier and Type | Field | Description |\n| --- | --- | --- |\n| `int` | [`boats`]" in text
        assert "\n## Method Details {#method-detail}\n" in text
        assert "docs.oracle.com" not in text
        page = await documents.page(f"{library.docs_url}harbour/Pier.html")
        for name in ("moor", "#moor(java.lang.String,int)", "Method Details"):
            span = section(page, name)
            assert span is not None
            assert "Ties a boat up." in window(page, *span).content
        assert "**Throws:**\n\n[`DockException`](harbour/DockException.html)" in text
        await documents.prefetch(library)
        hits = await documents.search("harbour", "lists the berths")
        assert hits[0].heading_path[-1] == "berths"


async def test_rustdoc(generated: Path, tmp_path: Path) -> None:
    async with served(generated / "rustdoc", tmp_path, "harbour/") as (documents, library):
        assert await index_text(documents, library) == (
            "all.html",
            "# Harbour\n\n## Modules\n\n- [Harbour](index.html)\n- [signals](signals/index.html)\n\n## API\n\n"
            "- [DockError](struct.DockError.html): struct\n- [Pier](struct.Pier.html): struct\n"
            "- [signals::hoist](signals/fn.hoist.html): fn\n",
        )
        assert (await documents.index(library)).version == "1.2.3"
        assert await page_text(documents, library, "struct.Pier.html") == (
            "# Struct Pier\n\n```rust\npub struct Pier {\n    pub berths: usize,\n}\n```\n\n"
            "A pier to which boats are moored.\n\n## Fields {#fields}\n\n"
            "`berths: `[`usize`](https://doc.rust-lang.org/1.95.0/std/primitive.usize.html)\n\nNumber of berths.\n\n"
            "## Implementations {#implementations}\n\n### `impl Pier` {#impl-Pier}\n\n"
            "#### `pub fn moor<T>(&self, boat: T) -> Result<usize, DockError> where T: AsRef<str>,` {#method.moor}\n\n"
            'Ties a boat up.\n\n##### Examples {#examples}\n\n```rust\nharbour::Pier { berths: 1 }.moor("Anna");\n```'
            "\n\n## Trait Implementations {#trait-implementations}\n\n### `impl Clone for Pier` {#impl-Clone-for-Pier}"
        )
        page = await documents.page(f"{library.docs_url}struct.Pier.html")
        assert "Result<usize, DockError>" in page.headings[4].text


async def test_typedoc(generated: Path, tmp_path: Path) -> None:
    async with served(generated / "typedoc", tmp_path) as (documents, library):
        assert await index_text(documents, library) == (
            "navigation.js",
            "# Harbour\n\n## Pages\n\n- [Harbour]()\n\n## API\n\n- [Pier](classes/Pier.html): class\n"
            "- [hoist](functions/hoist.html): function\n",
        )
        assert (await documents.index(library)).version == "1.2.3"
        assert await page_text(documents, library, "classes/Pier.html") == (
            "# Class Pier\n\nA pier to which boats are moored.\n\n## Constructors {#constructors-1}\n\n"
            "### constructor {#constructor}\n\n```ts\nnew Pier(berths: number): Pier\n```\n\nCreates a pier.\n\n"
            "#### Parameters\n\n- berths: number\n\n  The number of berths.\n\n#### Returns Pier\n\n"
            "## Properties {#properties-1}\n\n### `Readonly` berths {#berths}\n\n```ts\nberths: number\n```\n\n"
            "The number of berths.\n\n## Methods {#methods-1}\n\n### moor {#moor}\n\n"
            "```ts\nmoor(boat: string): boolean\n```\n\nTies a boat up.\n\n#### Parameters\n\n- boat: string\n\n"
            '#### Returns boolean\n\n#### Example {#example}\n\n```ts\nnew Pier(1).moor("Anna");\n```'
        )


async def test_pdoc(generated: Path, tmp_path: Path) -> None:
    async with served(generated / "pdoc", tmp_path) as (documents, library):
        assert await index_text(documents, library) == (
            "search.js",
            "# Harbour\n\n## Modules\n\n- [harbour](harbour.html)\n- [harbour.signals](harbour/signals.html)\n\n"
            "## API\n\n- [harbour.Pier](harbour.html#Pier): class\n"
            "- [harbour.signals.hoist](harbour/signals.html#hoist): function\n",
        )
        assert await page_text(documents, library, "harbour.html") == (
            "# harbour\n\nBerths for boats.\n\n## `class Pier:` {#Pier}\n\nA pier to which boats are moored.\n\n"
            "### `def moor(self, boat: str, *, lines: int = 2) -> bool:` {#Pier.moor}\n\nTie a boat up."
        )


@pytest.mark.parametrize(("builder", "guide"), [("sphinx", "guide.html"), ("dirhtml", "guide/")])
async def test_sphinx_without_inventory(generated: Path, tmp_path: Path, builder: str, guide: str) -> None:
    async with served(generated / builder, tmp_path) as (documents, library):
        source, text = await index_text(documents, library)
        assert source == "searchindex.js"
        assert f"- [Guide]({guide})\n" in text
        assert await page_text(documents, library, guide) == "# Guide {#guide}\n\nTie up."


async def test_sphinx_tabs_and_definition_lists(generated: Path, tmp_path: Path) -> None:
    async with served(generated / "sphinx", tmp_path) as (documents, library):
        text = await page_text(documents, library, "index.html")
        assert '**Bash**\n\n```bash\neval "$(foo bash)"\n```\n\n**Zsh**\n\n```zsh\neval "$(foo zsh)"\n```\n' in text
        assert "**berth**\n\nA place for a boat.\n" in text


async def test_mike(generated: Path, tmp_path: Path) -> None:
    """The root refers to `latest/`, which refers to the newest version."""
    async with served(generated / "mike", tmp_path) as (documents, library):
        newest = await documents.index(library)
        assert newest.source == "search_index.json"
        assert f"- [Harbour 2.0]({library.docs_url}2.0/)" in newest.text
        older = await documents.index(await documents.select(library, "1.0"))
        assert f"- [Harbour 1.0]({library.docs_url}1.0/)" in older.text
        assert older.version == "1.0"


async def test_docusaurus(generated: Path, tmp_path: Path) -> None:
    """The newest version is at the root, and the menu of versions lists the others."""
    root = generated / "docusaurus"
    async with Site(folder(root)) as site:
        published = (root / "sitemap.xml").read_text()
        site.routes["/sitemap.xml"] = text(published.replace("https://harbour.example", site.url), "text/xml")
        library = Library(id="harbour", name="Harbour", docs_url=f"{site.url}/")
        documents = await LibraryDocuments.open(settings(tmp_path, site), Rows(library), network=LoopbackNetwork())
        source, found = await index_text(documents, library)
        newest = await page_text(documents, library, "docking/")
        older = await documents.index(await documents.select(library, "1.0"))
        old = await page_text(documents, library, "1.0/docking/")
        await documents.close()
    assert source == "sitemap.xml"
    assert "- [docking](docking)\n" in found
    moor = '**Python**\n\nmoor.py\n\n```python\nharbour.moor("Ada")\n```\n\n**JavaScript**\n\n```js\n'
    assert moor in newest
    assert "**Tide**\n\nMind the new tide.\n" in newest
    assert "## Moor a boat {#moor}\n" in newest
    assert "**Tide**\n\nMind the tide.\n" in old
    assert older.version == "1.0"
    assert f"({library.docs_url}1.0/docking)" in older.text, older.text
    assert f"({library.docs_url}docking)" not in older.text
