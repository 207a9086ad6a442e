"""`jackstay generate`: standard output, the file, and files that are not overwritten."""

from collections.abc import Callable
from pathlib import Path

from jackstay.cli._typed_client import MARK


def test_the_module_is_printed_or_written(jackstay: Callable, tmp_path: Path) -> None:
    printed = jackstay("generate", "--timeout", "240").out
    assert printed.startswith(MARK)
    compile(printed, "client.py", "exec")
    path = tmp_path / "client.py"
    for _ in range(2):  # a generated file is overwritten
        done = jackstay("generate", "--timeout", "240", "--output", str(path))
        assert (done.code, done.out.partition(": ")[0]) == (0, f"wrote {path}")
        assert path.read_text(encoding="utf-8") == printed
    assert jackstay("generate", "--timeout", "240", "--json").json == {"module": printed}
    assert jackstay("generate", "--timeout", "240", "--json", "--output", str(path)).json["file"] == str(path)


def test_another_file_is_kept(jackstay: Callable, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("print('mine')\n")
    done = jackstay("generate", "--timeout", "240", "--output", str(path))
    reason = f"{path} exists and was not generated; use --force to overwrite it"
    assert (done.code, done.err) == (2, f"jackstay: --output: {reason}\n")
    assert path.read_text() == "print('mine')\n"
    assert jackstay("generate", "--timeout", "240", "--force", "--output", str(path)).code == 0
    assert path.read_text(encoding="utf-8").startswith(MARK)
    done = jackstay("generate", "--timeout", "240", "--force", "--output", str(tmp_path / "no" / "x.py"))
    assert (done.code, "cannot write" in done.err) == (2, True)
    done = jackstay("generate", "--timeout", "240", "--output", str(tmp_path))
    assert (done.code, "cannot write" in done.err) == (2, True)
    assert [found.name for found in tmp_path.iterdir()] == ["mine.py"]


def test_words_are_refused(jackstay: Callable) -> None:
    assert "unexpected argument 'more'" in jackstay("generate", "--timeout", "240", "more").err
