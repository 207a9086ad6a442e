"""docs/interop.md matches the table of peers."""

from interop.peers import PEERS, ROOT

PAGE = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")


def test_page_lists_every_peer_with_its_version() -> None:
    shown = [line for line in PAGE.splitlines() if line.startswith("| `")]
    rows = [
        f"| `{peer.name}` | {peer.registry} | {', '.join(f'`{package}`' for package in peer.packages)} | {peer.role} |"
        for peer in PEERS
    ]
    assert shown == rows
