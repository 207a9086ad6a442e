"""The notebook, executed by a real kernel: what it shows is what comes out."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from guides.loading import ENVIRONMENT, GUIDES

EXECUTE = """\
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=30, resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, sys.argv[1])
"""


def outputs(path: Path) -> list[Any]:
    """What each cell shows, as text."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        "".join(output.get("text") or output["data"]["text/plain"])
        for cell in cells
        for output in cell.get("outputs", ())
    ]


def test_the_notebook_shows_what_it_does(tmp_path: Path) -> None:
    """A kernel has a running loop: `jackstay.sync` works under it, and so does the async client by `await`."""
    for name in ("notebook.ipynb", "shop.py"):
        shutil.copy(GUIDES / name, tmp_path)
    # In a process of its own: the libraries of notebooks warn, and look into the home directory.
    homes = {f"{name}_DIR": str(tmp_path / name) for name in ("JUPYTER_CONFIG", "JUPYTER_DATA", "JUPYTER_RUNTIME")}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, "notebook.ipynb"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={**ENVIRONMENT, **homes, "IPYTHONDIR": str(tmp_path / "ipython"), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    shown = outputs(GUIDES / "notebook.ipynb")
    assert outputs(tmp_path / "notebook.ipynb") == shown
    assert len(shown) == 6
    (ledger,) = tmp_path.glob("*/ledger.txt")
    assert ledger.read_text() == "A7 500\n"
