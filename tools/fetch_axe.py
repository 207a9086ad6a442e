"""Download axe-core from the npm registry into build/axe-core, for the browser tests; verified by its digest."""

import base64
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

VERSION = "4.14.0"
# As in the registry: `npm view axe-core@VERSION dist.integrity`.
SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="

FOLDER = Path(__file__).resolve().parent.parent / "build" / "axe-core"


def main() -> int:
    """Download the file unless it is there; return the exit code."""
    target, marker = FOLDER / "axe.min.js", FOLDER / "version"
    if target.exists() and marker.exists() and marker.read_text() == VERSION:
        return 0
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    with urllib.request.urlopen(f"{registry}/axe-core/-/axe-core-{VERSION}.tgz", timeout=120) as response:
        archive = response.read()
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != SHA512:
        print(f"axe-core {VERSION}: the digest differs", file=sys.stderr)
        return 1
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        member = files.extractfile("package/axe.min.js")
        assert member is not None  # verified by the digest
        FOLDER.mkdir(parents=True, exist_ok=True)
        target.write_bytes(member.read())
    marker.write_text(VERSION)
    return 0


if __name__ == "__main__":
    sys.exit(main())
