"""A user's program has whole, right types under pyright, strict (README: typed for users).

`tests/typed/user_program.py` is that program; `make types` holds the same file against mypy.
"""

import json
import subprocess
import sys
from pathlib import Path

from interop.peers import BY_NAME, ROOT, node

PROGRAM = (ROOT / "tests" / "typed" / "user_program.py").read_text(encoding="utf-8")


def complaints(folder: Path, program: str) -> list[str]:
    """Return the output of pyright for the program, with the packages of this environment."""
    (folder / "user_program.py").write_text(program, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["user_program.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    pyright = BY_NAME["pyright"].home / "node_modules" / "pyright" / "index.js"
    done = subprocess.run(
        [node(), pyright, "--outputjson", "--pythonpath", sys.executable, "-p", folder],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=folder,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    return [found["message"] for found in report["generalDiagnostics"]]


def test_a_users_program_passes_pyright_strict(tmp_path: Path) -> None:
    assert complaints(tmp_path, PROGRAM) == []


def test_a_wrong_type_in_it_is_found(tmp_path: Path) -> None:
    """The proof that the check above can fail: the types are seen, not guessed as unknown."""
    planted = PROGRAM.replace("assert_type(result.text, str)", "assert_type(result.text, int)")
    assert planted != PROGRAM
    assert complaints(tmp_path, planted)
