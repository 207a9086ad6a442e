# Invariant: any settings file, named or in the working directory, is loaded or raises ConfigError.
import contextlib
import tempfile
from pathlib import Path

from procontext.config import load
from procontext.config_files import FILE_NAME
from procontext.errors import ConfigError

CORPUS = [
    b"2001-21-01: x",
    b"[" * 300,
    b'sources: [{id: a, path: "a\\0b"}]',
    b'sources: [{id: a, path: "\\ud800"}]',
    b"cache: &a {ttl_hours: *a}",
    b"cache: {ttl_hours: !!int ''}",
    b"cache: {ttl_hours: .nan}",
    b"server: {port: 0x" + b"f" * 40 + b"}",
    b"sources: [{id: a, docs_url: 'http://[/', headers: {A: '${HOME}'}}]",
    b"fetcher: {proxy: 'http://[x', allowed_private_hosts: ['[:1', ':1', 'x:\xc2\xb2']}",
    b"registry: {url: 'http://x:y/'}",
]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE_NAME).write_bytes(data)
        for named in (str(folder / FILE_NAME), None):
            with contextlib.suppress(ConfigError):
                load(named, working=folder, user=folder / "absent", environment={"HOME": "x"})
