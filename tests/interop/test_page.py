"""The page about the peers matches the table."""

from interop.peers import PEERS, ROOT

PAGE = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")


def test_every_peer_is_on_the_page_with_its_version_and_nothing_else_is() -> None:
    shown = [line for line in PAGE.splitlines() if line.startswith("| `")]
    rows = [
        f"| `{peer.name}` | {peer.registry} | {', '.join(f'`{package}`' for package in peer.packages)} | {peer.role} |"
        for peer in PEERS
    ]
    assert shown == rows
