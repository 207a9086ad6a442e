"""The registry of libraries: the bundled file, a newer downloaded one, and private sources on top of both."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from procontext.registry._document import Document, checksum, read_document
    from procontext.registry._download import Downloader
    from procontext.registry._registry import Registry
    from procontext.registry._store import BUNDLED, State, Store, default_directory
    from procontext.registry._update import Download, delays, keep_fresh, update

__all__ = [
    "BUNDLED",
    "Document",
    "Download",
    "Downloader",
    "Registry",
    "State",
    "Store",
    "checksum",
    "default_directory",
    "delays",
    "keep_fresh",
    "read_document",
    "update",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "BUNDLED": "_store",
            "Document": "_document",
            "Download": "_update",
            "Downloader": "_download",
            "Registry": "_registry",
            "State": "_store",
            "Store": "_store",
            "checksum": "_document",
            "delays": "_update",
            "keep_fresh": "_update",
            "read_document": "_document",
            "default_directory": "_store",
            "update": "_update",
        },
    )
