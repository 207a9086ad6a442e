"""Check that each configured source can be read: one request per URL, and the files of each folder. Stores nothing."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from procontext.config import Config, Source
from procontext.fetch import Access, Fetcher, FetchError, Network, Sites, Target
from procontext.page import files_in

# Seconds for each request: a source that needs longer has a problem.
MAX_SECONDS: Final = 10.0
# Files of a folder are counted up to this number.
MAX_FILES: Final = 1000


class SourceState(NamedTuple):
    """The result for one source; `advice` is what to do, if anything."""

    id: str
    state: str
    detail: str
    advice: str = ""


def check_sources(config: Config, network: Network | None = None) -> Sequence[SourceState]:
    """Check all configured sources concurrently."""
    return asyncio.run(_check_all(config, network)) if config.sources else ()


async def _check_all(config: Config, network: Network | None) -> list[SourceState]:
    seconds = min(config.fetcher.timeout_seconds, MAX_SECONDS)
    settings = msgspec.structs.replace(config.fetcher, timeout_seconds=seconds)
    sites = Sites([source.library() for source in config.sources])

    async def check_access(target: Target) -> Access:
        return Access(sites.allows(target), sites.headers(target))

    fetcher = Fetcher(settings, check_access, network)
    try:
        return list(await asyncio.gather(*(_check(source, fetcher, settings.offline) for source in config.sources)))
    finally:
        await fetcher.close()


async def _check(source: Source, fetcher: Fetcher, is_offline: bool) -> SourceState:
    if source.path is not None:
        return await asyncio.to_thread(_check_folder, source.id, Path(source.path))
    if is_offline:
        return SourceState(source.id, "warning", "not checked: fetcher.offline is set")
    found: FetchError | None = None
    for url in (source.llms_txt_url, source.docs_url):
        if url is None:
            continue
        try:
            fetched = await fetcher.fetch(url)
        except FetchError as error:
            found = found or error
        else:
            return SourceState(source.id, "ok", f"{fetched.final_url} can be read")
    assert found is not None  # the settings reject a source without a URL or a path
    is_final = bool(found.remedy) or found.reason in ("not_allowed", "not_found", "invalid")
    advice = found.remedy or "Correct its URL in `sources`, or try again when its host responds."
    return SourceState(source.id, "failed" if is_final else "warning", str(found), advice)


def _check_folder(source_id: str, folder: Path) -> SourceState:
    count = sum(1 for _ in islice(files_in(folder), MAX_FILES))
    if not count:
        advice = "Set `path` in `sources` to a folder with Markdown or HTML files."
        return SourceState(source_id, "failed", f"{folder} contains no readable file", advice)
    more = " or more" if count == MAX_FILES else ""
    return SourceState(source_id, "ok", f"{folder} has {count}{more} file{'' if count == 1 else 's'}")


__all__ = ["SourceState", "check_sources"]
