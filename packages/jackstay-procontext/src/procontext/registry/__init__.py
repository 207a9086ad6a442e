"""The registry of libraries: the bundled file, a newer downloaded one, and private sources on top of both."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._document": "Document checksum read_document",
        "._download": "Downloader",
        "._installed": "Installed",
        "._package_indexes": "PackageIndexes",
        "._registry": "Registry",
        "._store": "BUNDLED State Store default_directory",
        "._update": "Download delays keep_fresh update",
    },
)
