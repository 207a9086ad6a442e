"""The one place that holds the version: the build reads it from here, and so do `jackstay --version` and `clientInfo`."""

__version__ = "0.1.0.dev0"
