"""Documentation of one version: its own table of contents, pages and search."""

from pathlib import Path

from procontext.models import Library
from scripted.documentation import Rows, Site, text
from scripted.library import opened

NEW = {
    "/": text('<meta http-equiv="refresh" content="0; url=/latest/">', "text/html"),
    "/latest/": text("<title>Kit 3.0</title><nav><a href=tie.md>Tie</a></nav>", "text/html"),
    "/latest/tie.md": text("# Tie\n\nThe new knot.\n"),
    "/2.4/": text("<nav><a href=tie.md>Tie</a></nav>", "text/html"),
    "/2.4/tie.md": text("# Tie\n\nThe old knot.\n"),
    "/plain.md": text("# Plain\n"),
}


async def test_version_has_its_own_pages(tmp_path: Path) -> None:
    async with Site(NEW) as site:
        kit = Library(id="kit", name="Kit", docs_url=f"{site.url}/")
        async with opened(tmp_path, site, rows=Rows(kit)) as documents:
            assert await documents.select(kit, None) is kit
            assert await documents.select(kit, "3.0.1") is kit  # the site states that it is about 3.0
            old = await documents.select(kit, "2.4.7")
            assert (old.id, (await documents.index(old)).version) == ("kit@2.4.7", "2.4")
            for library in (kit, old):
                await documents.prefetch(library)
            for library, found in ((kit, "new"), (old, "old")):
                hits = await documents.search(library.id, "knot")
                assert [hit.snippet for hit in hits] == [f"The {found} knot."]
            assert (await documents.page(f"{site.url}/2.4/tie.md")).version == "2.4"
            assert (await documents.page(f"{site.url}/latest/tie.md")).version == "3.0"
            assert (await documents.page(f"{site.url}/plain.md")).version is None


async def test_version_without_a_site(tmp_path: Path) -> None:
    async with Site(NEW) as site:
        kit = Library(id="kit", name="Kit", docs_url=f"{site.url}/")
        async with opened(tmp_path, site, rows=Rows(kit)) as documents:
            assert await documents.select(kit, "1.0") is kit
            count = len(site.requests)
            assert await documents.select(kit, "1.0") is kit
            assert len(site.requests) == count  # it is not looked for again
