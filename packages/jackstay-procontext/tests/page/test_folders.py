"""Local folders as sources."""

from pathlib import Path

import pytest

from procontext.fetch import parse_url
from procontext.page._folders import (
    file_in,
    file_version,
    files_in,
    folder_address,
    folder_index,
    read_folder_page,
    split_address,
)

LIMIT = 100_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name, text in {
        "index.md": "# Home\n",
        "guide/start here.md": "intro\n\n## First\n",
        "guide/page.html": "<html><title>A page</title><body><main><h1>Shown</h1></main></body></html>",
        "bare.html": "<p>no title</p>",
        "plain.txt": "no heading",
        ".hidden.md": "# Hidden",
        ".git/config.md": "# Git",
        "node_modules/x.md": "# Module",
        "picture.png": "x",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "secret.md").write_text("# Secret")
    (folder / "outside.md").symlink_to(tmp_path / "secret.md")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    return folder


def test_files_in(root: Path) -> None:
    listed = list(files_in(root))
    assert listed[:2] == ["bare.html", "index.md"]
    assert {"guide/page.html", "guide/start here.md", "plain.txt"} <= set(listed)
    assert not any("hidden" in name or "config" in name or "module" in name or "png" in name for name in listed)


def test_number_of_files_is_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procontext.page._folders.MAX_FILES", 2)
    assert len(list(files_in(root))) == 2


def test_files_outside_the_folder_are_not_read(root: Path) -> None:
    """Other kinds of files are not read either."""
    for relative in (
        *("../secret.md", "/etc/passwd", "outside.md", "loop.md", "picture.png", "absent.md"),
        *("", "guide", "a\0.md"),
    ):
        assert file_in(root, relative) is None, relative


def test_split_address(root: Path) -> None:
    target = parse_url(f"{folder_address('my-lib')}guide/start%20here.md#x")
    assert split_address(target) == ("my-lib", "guide/start here.md")
    assert file_in(root, "guide/start here.md") == root / "guide/start here.md"


def test_read_folder_page(root: Path) -> None:
    page = read_folder_page(root / "guide/page.html", "https://x.example/", LIMIT)
    assert page.text == "# Shown\n"
    file = root / "index.md"
    before = read_folder_page(file, "u", LIMIT)
    file.write_text("# Home, changed\n")
    assert file_version(file) != before.version
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_folder_page(file, "u", 3)


def test_index_lists_files_by_title(root: Path) -> None:
    text, links = folder_index(root, "lib", "Lib", LIMIT)
    base = folder_address("lib")
    assert f"- [First]({base}guide/start%20here.md): guide/start here.md" in text
    assert f"- [A page]({base}guide/page.html): guide/page.html" in text
    assert f"- [plain.txt]({base}plain.txt): plain.txt" in text
    assert f"- [bare.html]({base}bare.html)" in text
    assert f"{base}index.md" in links


def test_llms_txt_of_a_folder(root: Path) -> None:
    (root / "llms.txt").write_text("# Own\n- [A](guide/page.html)\n- [B](https://b.example/)\n- [C](#c)\n")
    text, links = folder_index(root, "lib", "Lib", LIMIT)
    base = folder_address("lib")
    assert text == f"# Own\n- [A]({base}guide/page.html)\n- [B](https://b.example/)\n- [C](#c)\n"
    assert f"{base}guide/page.html" in links


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="folder not found"):
        folder_index(tmp_path / "gone", "lib", "Lib", LIMIT)
