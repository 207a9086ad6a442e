"""The other libraries, with their versions, each in its own environment in `bench/`.

The environments are created on first use and kept. The apcore bridge of Jackstay has its own environment, too, because
the installed packages affect its start.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN_PACKAGES = [HERE.parent / "packages" / name for name in ("jackstay", "jackstay-apcore")]

# The fastest configuration of uvicorn. Over HTTP, every server is measured with and without it.
FAST = ["httptools", "uvloop"]

# Environment -> its requirements.
ENVIRONMENTS = {
    "mcp-1.30.0": ["mcp==1.30.0", *FAST],
    "mcp-2.3.0": ["mcp==2.3.0", *FAST],
    "fastmcp-3.4.10": ["fastmcp==3.4.10", *FAST],
    "fastmcp-4.1.2": ["fastmcp==4.1.2", *FAST],
    "mcp-proxy-0.13.0": ["mcp-proxy==0.13.0"],
    "apcore-mcp-0.23.3": ["apcore-mcp==0.23.3"],
    "jackstay-apcore": [argument for package in OWN_PACKAGES for argument in ("--editable", str(package))],
}
PUBLIC_BRIDGE = "apcore-mcp-0.23.3"
OUR_BRIDGE = "jackstay-apcore"

# The package in the environment of node.
TYPESCRIPT = "@modelcontextprotocol/sdk@1.32.2"


def is_measured(name: str) -> bool:
    """Return whether to measure a program. PEERS in the environment selects peers by the beginnings of their names.

    They are separated by commas; "0" is none. The limit and Jackstay are always measured.
    """
    peers = os.environ.get("PEERS")
    return peers is None or name.startswith(("limit", "jackstay", *(peer for peer in peers.split(",") if peer)))


def node_of(program: Path) -> list[str]:
    """Return the command of a node program that uses the official TypeScript SDK, which is installed if necessary.

    Returns an empty list, and prints a message, if node is not installed.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print(f"node is not installed: {program.name} is skipped")
        return []
    folder = HERE / f".env-typescript-{TYPESCRIPT.rpartition('@')[2]}"
    stamp = folder / ".installed"
    if not stamp.exists():
        print(f"installing {TYPESCRIPT} ...", flush=True)
        folder.mkdir(exist_ok=True)
        subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), TYPESCRIPT],
            check=True,
        )
        stamp.touch()
    # Node searches packages only in the directory of the program and its parents.
    return [node, shutil.copy(program, folder)]


def python_of(environment: str | None) -> str:
    """Return the interpreter of an environment, which is created if necessary; None is the running one."""
    if environment is None:
        return sys.executable
    folder = HERE / f".env-{sys.version_info[0]}.{sys.version_info[1]}-{environment}"
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    packages = ENVIRONMENTS[environment]
    fingerprint = " ".join(packages)
    if "--editable" in packages:
        # The dependencies of Jackstay change without a new version.
        projects = b"".join((package / "pyproject.toml").read_bytes() for package in OWN_PACKAGES)
        fingerprint += " " + hashlib.sha256(projects).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != fingerprint:
        print(f"installing {environment} ...", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages], check=True
        )
        stamp.write_text(fingerprint, encoding="utf-8")
    return str(python)
