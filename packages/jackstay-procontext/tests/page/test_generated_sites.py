"""Sites built by Sphinx with furo and by MkDocs with Material, read over loopback."""

import os
import subprocess
import sys
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
