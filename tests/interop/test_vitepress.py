"""The documentation server reads a VitePress site: its sitemap or navigation, its pages as Markdown, and search.

VitePress adds line numbers, copy buttons, code groups and containers to the rendered pages.
`make test` builds sites with Sphinx and MkDocs; this one needs node. It is built once, and served on loopback.
"""

import os
import subprocess
from pathlib import Path

import pytest

from interop.peers import BY_NAME, node
from procontext.models import Library
from procontext.page import LibraryDocuments, section, window
from scripted.documentation import LoopbackNetwork, Rows, Site, folder, settings, text

BUILD_SECONDS = 250

PUBLISHED = "https://harbour.example"

SOURCE = {
    ".vitepress/config.mjs": f"""
export default {{
  title: 'Harbour',
  sitemap: {{ hostname: '{PUBLISHED}' }},
  lastUpdated: false,
  markdown: {{ lineNumbers: true }},
  themeConfig: {{
    nav: [{{ text: 'Guide', link: '/guide' }}],
    sidebar: [{{ text: 'Start', items: [{{ text: 'Guide', link: '/guide' }}, {{ text: 'API', link: '/api/' }}] }}],
    search: {{ provider: 'local' }},
  }},
}}
""",
    "index.md": "---\nlayout: home\nhero: {name: Harbour, text: Tie boats up}\n---\n\n# Harbour\n\nTie boats up.\n",
    "guide.md": """# Guide

Install it first.

::: code-group

```sh [npm]
npm install harbour
```

```sh [pnpm]
pnpm add harbour
```

:::

## Tying up

::: warning
Use two lines.
:::

```ts{2}
// a comment, no heading
import { moor } from 'harbour'

await moor('boat', { lines: 2 })
```

| Name | Length |
| ---- | ------ |
| bow  | 10     |

See [the API](./api/index.md#moor) and `Map<string, Line>`.
""",
    "api/index.md": "# API\n\n## moor() {#moor}\n\nTies a boat up.\n\n## berths()\n\nLists every berth.\n",
}

GUIDE = """\
# Guide {#guide}

Install it first.

**npm**

```sh
npm install harbour
```

**pnpm**

```sh
pnpm add harbour
```

## Tying up {#tying-up}

**WARNING**

Use two lines.

```ts
// a comment, no heading
import { moor } from 'harbour'

await moor('boat', { lines: 2 })
```

| Name | Length |
| --- | --- |
| bow | 10 |

See [the API](SITE/api/#moor) and `Map<string, Line>`."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site and return its directory. VitePress must be linked next to the sources."""
    peer = BY_NAME["vitepress"]
    root = tmp_path_factory.mktemp("vitepress")
    for name, content in SOURCE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    (root / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
    (root / "node_modules").symlink_to(peer.home / "node_modules")
    done = subprocess.run(
        [str(node()), str(peer.home / peer.program), "build", str(root)],
        cwd=root,
        env={**os.environ, "CI": "1", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return root / ".vitepress" / "dist"


def harbour(site: Site) -> Library:
    return Library(id="harbour", name="Harbour", docs_url=f"{site.url}/")


@pytest.mark.guard(BUILD_SECONDS + 20)
async def test_index_from_the_sitemap_pages_and_search(built: Path, tmp_path: Path) -> None:
    """HTML pages are converted to Markdown, and a site without llms.txt has an index."""

    async def scenario() -> None:
        async with Site(folder(built)) as site:
            # The sitemap contains the address at which the site would be published.
            published = (built / "sitemap.xml").read_text(encoding="utf-8").replace(PUBLISHED, site.url)
            site.routes["/sitemap.xml"] = text(published, "text/xml")
            documents = await LibraryDocuments.open(
                settings(tmp_path, site), Rows(harbour(site)), network=LoopbackNetwork()
            )
            index = await documents.index(harbour(site))
            assert index.source == "sitemap.xml"
            assert f"]({site.url}/guide.html)" in index.text
            assert f"]({site.url}/api/)" in index.text
            assert (await documents.prefetch(harbour(site))).stored == 3
            page = await documents.page(f"{site.url}/guide.html")
            assert "\n".join(page.lines) == GUIDE.replace("SITE", site.url)
            span = section(page, "Tying up")
            assert span is not None
            assert window(page, *span).content.startswith("## Tying up")
            (hit,) = await documents.search("harbour", "berths every")
            assert (hit.url, hit.heading_path) == (f"{site.url}/api/", ("API", "berths()"))
            await documents.close()

    await scenario()


@pytest.mark.guard(BUILD_SECONDS + 20)
async def test_index_from_the_navigation_without_a_sitemap(built: Path, tmp_path: Path) -> None:
    """The pages of VitePress contain the sidebar."""

    async def scenario() -> None:
        routes = folder(built)
        del routes["/sitemap.xml"]
        async with Site(routes) as site:
            documents = await LibraryDocuments.open(
                settings(tmp_path, site), Rows(harbour(site)), network=LoopbackNetwork()
            )
            index = await documents.index(harbour(site))
            assert index.source == "navigation"
            assert f"[Guide]({site.url}/guide.html)" in index.text
            await documents.close()

    await scenario()
