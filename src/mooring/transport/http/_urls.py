"""The user's own URL: what is refused before anything is sent, and whether it stays on this machine.

Must never know what is sent there. Above: `_target`. Below: nothing.
"""

from mooring.errors import UsageError


def check_url(url: object) -> str:
    """The user's own URL. Raises: UsageError, without the part that may hold a secret."""
    from urllib.parse import urlsplit  # noqa: PLC0415  # takes 3 ms, and few programs come here

    if not isinstance(url, str) or not url:
        what = "empty" if url == "" else type(url).__name__
        raise UsageError(f"a URL is text such as https://example.org/mcp, not {what}", path="url")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"not a URL ({error})", path="url") from None
    shown = f"{scheme}://{host or ''}" if scheme else url.partition("?")[0][:80]
    if scheme not in ("http", "https"):
        hint = " (is https:// missing?)" if not parts.netloc else ""
        raise UsageError(f"only http and https URLs are spoken to, not {shown!a}{hint}", path="url")
    if not host:
        raise UsageError(f"the URL {shown!a} names no host", path="url")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "a URL with a name or password in it ends up in logs: pass auth=(name, password)", path="url"
        )
    if port == 0:
        raise UsageError("port 0 cannot be connected to", path="url")
    if parts.fragment or any(mark in url for mark in " \t\r\n\\") or not url.isprintable():
        raise UsageError(f"the URL of {shown!a} has a fragment, spaces or a backslash in it", path="url")
    return url


def is_loopback(url: str) -> bool:
    """Whether it stays on this machine: `localhost` and its subdomains, 127.0.0.0/8 and ::1."""
    from urllib.parse import urlsplit  # noqa: PLC0415  # as above

    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost") or host == "::1":
        return True
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)
