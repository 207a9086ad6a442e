"""How many names of a real environment are known: by rows, by installed metadata, and by the package index.

    python tests/search_quality/names.py                    the packages of this environment
    python tests/search_quality/names.py --wheels FOLDER    those of a folder of wheels

A copy of the index on loopback serves their metadata as PyPI's JSON pages. `make bench ONLY=procontext` runs it, with
the folder that WHEELS names. Exits with 1 if fewer than 90 % are known, or at least 0.5 % are guessed.
"""

import argparse
import asyncio
import sys
import tempfile
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from procontext.config import FetcherSettings, PackagesSettings
from procontext.registry import Installed, PackageIndexes, Registry

MIN_KNOWN = 0.90
MAX_GUESSED = 0.005
# Of the lines of inputs.txt with a library, and of those without one.
MIN_RESOLVED = 0.97
MAX_WRONG = 0.005


def installed_metadata() -> dict[str, bytes]:
    """Return the metadata file of each package of this environment by its name, without this project's own."""
    texts = {item.name: item.read_text("METADATA") for item in distributions() if not item.name.startswith("jackstay")}
    return {name: text.encode() for name, text in texts.items() if text}


def metadata_of(folder: Path) -> dict[str, bytes]:
    """Return the metadata file of each wheel by the name of its package."""
    found: dict[str, bytes] = {}
    for file in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(file) as archive:
            name = next((name for name in archive.namelist() if name.endswith(".dist-info/METADATA")), None)
            data = b"" if name is None else archive.read(name)
        own = message_from_bytes(data)["Name"]
        if own:
            found[own] = data
    return found


def json_page(metadata: Message) -> bytes:
    """Return a package's page as PyPI's JSON interface has it."""
    urls = dict(entry.split(",", 1) for entry in metadata.get_all("Project-URL") or [] if "," in entry)
    info = {
        "name": metadata["Name"],
        "version": metadata["Version"],
        "home_page": metadata["Home-page"],
        "project_urls": {label.strip(): url.strip() for label, url in urls.items()},
        "description": str(metadata.get_payload() or metadata["Description"] or metadata["Summary"] or ""),
    }
    return msgspec.json.encode({"info": info})


async def serve(pages: dict[str, bytes]) -> tuple[asyncio.Server, str]:
    """Serve the pages on loopback, and return the server and its URL."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = pages.get(head.split(b" ", 2)[1].decode().lower())
        status = "200 OK" if body is not None else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n".encode())
        writer.write(f"Content-Length: {len(body or b'')}\r\nConnection: close\r\n\r\n".encode() + (body or b""))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    return server, f"http://{host}:{port}"


async def measure(metadata: dict[str, bytes], folder: Path) -> int:
    """Resolve every name three times, print the shares, and return the exit code."""
    site = folder / ".venv" / "lib" / "python3.11" / "site-packages"
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").touch()
    pages: dict[str, bytes] = {}
    for name, data in metadata.items():
        message = message_from_bytes(data)
        pages[f"/pypi/{name.lower()}/json"] = json_page(message)
        info = site / f"{name.replace('-', '_')}-{message['Version']}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_bytes(data)
    server, url = await serve(pages)
    urls = dict.fromkeys(("pypi_url", "npm_url", "crates_url", "go_url"), url)
    fetcher = FetcherSettings(allowed_private_hosts=(url.removeprefix("http://"),))
    indexes = PackageIndexes(PackagesSettings(lookup=True, **urls), fetcher, folder / "learned")
    registries = {
        "rows of the registry": Registry(),
        "and the environment": Registry(installed=Installed(folder, folder / "pages")),
        "rows and the package index": Registry(open_indexes=lambda: indexes),
    }
    print(f"{len(metadata)} names")
    code = 0
    for what, registry in registries.items():
        registry.load()
        exact = guessed = 0
        for name in metadata:
            found = await registry.find(name)
            is_guess = bool(found) and found[0].matched_via == "fuzzy"
            guessed += is_guess
            exact += bool(found) and not is_guess
        known, wrong = exact / len(metadata), guessed / len(metadata)
        print(f"{what:28}{exact:5} known ({known:.1%}), {guessed} guessed ({wrong:.2%})")
        is_complete = what != "rows of the registry"
        code |= wrong >= MAX_GUESSED or (is_complete and known < MIN_KNOWN)
    await indexes.close()
    server.close()
    return int(code)


def measure_inputs() -> int:
    """Resolve what developers type, with the rows of the registry alone, and return the exit code."""
    registry = Registry()
    registry.load()
    right = wrong = known = unknown = guessed = 0
    for line in (Path(__file__).parent / "inputs.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        query, _, meant = (part.strip() for part in line.rpartition("|"))
        found = registry.resolve(query)
        first = found[0].library_id if found else ""
        known, unknown = known + bool(meant), unknown + (not meant)
        right += bool(meant) and first == meant
        wrong += bool(meant and first) and first != meant
        guessed += bool(first) and not meant
        if first != meant:
            print(f"  {query!r}: {first or 'nothing'} instead of {meant or 'nothing'}")
    print(f"{known} inputs of known libraries: {right} right, {wrong} wrong, {known - right - wrong} empty")
    print(f"{unknown} inputs of other packages: {unknown - guessed} empty, {guessed} wrong")
    return int(right < MIN_RESOLVED * known or wrong > MAX_WRONG * known or guessed > MAX_WRONG * unknown)


def main() -> int:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metadata = installed_metadata() if given.wheels is None else metadata_of(given.wheels)
        return asyncio.run(measure(metadata, Path(folder))) | measure_inputs()


if __name__ == "__main__":
    sys.exit(main())
