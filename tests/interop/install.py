"""Create an environment for each peer in `peers.py` from the public registries (`make interop`).

An environment that is up to date is kept; a stamp file contains its versions. If a peer cannot be installed, the run
fails with the output of the installer. Two peers are installed at a time.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from interop.peers import BY_NAME, HOME, NODE, PEERS, Peer, node, node_home

CONCURRENT_INSTALLS = 2
INSTALLER_SECONDS = 600.0
SHOWN_LINES = 15


class NotInstalledError(Exception):
    """An installer failed; the message has its last output."""


def stamp_of(peer: Peer) -> str:
    """Return the content of the stamp file. It contains the path, because installed scripts contain it, too."""
    node_packages = () if peer.registry == "PyPI" else NODE.packages
    locked = () if peer.lock is None else (hashlib.sha256(peer.lock.read_bytes()).hexdigest(),)
    source = (peer.sdist, peer.sdist_sha256) if peer.sdist else ()
    return "\n".join((sys.version, str(peer.home), *node_packages, *peer.packages, *locked, *source))


def run(*command: str | Path) -> None:
    """Run an installer. Raises: NotInstalledError."""
    arguments = [str(argument) for argument in command]
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALLER_SECONDS,
            check=False,
            # npm finds node through PATH, so the installed one is first.
            env={**os.environ, "PATH": f"{_node_directory()}{os.environ.get('PATH', '')}"},
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"{' '.join(arguments)}\ntimed out after {INSTALLER_SECONDS:g} s") from error
    if done.returncode:
        output = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
        raise NotInstalledError(f"{' '.join(arguments)}\nexited with {done.returncode}:\n{output}")


def _node_directory() -> str:
    try:
        return f"{node().parent}{os.pathsep}"
    except FileNotFoundError:
        return ""


def make_python(peer: Peer) -> None:
    """Create a virtual environment."""
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--quiet", "--python", sys.executable, peer.home)
    run(*uv, "pip", "install", "--quiet", "--python", peer.python, *peer.packages)
    if peer.sdist:
        unpack_source(peer)


def unpack_source(peer: Peer) -> None:
    """Download the source distribution of a peer, compare its hash, and unpack it. Raises: NotInstalledError."""
    name = peer.sdist.partition("==")[0]
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
    run(
        sys.executable,
        "-m",
        "pip",
        "download",
        *quiet,
        "--no-binary",
        name,
        "--dest",
        peer.source.parent,
        peer.sdist,
    )
    archive = peer.source.with_name(f"{peer.source.name}.tar.gz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != peer.sdist_sha256:
        raise NotInstalledError(f"{archive.name} has the SHA-256 {found}, not {peer.sdist_sha256}")
    with tarfile.open(archive) as opened:
        opened.extractall(peer.source.parent, filter="data")


def make_npm(peer: Peer) -> None:
    """Create a prefix with `node_modules`. Install scripts are disabled, because no peer needs one."""
    peer.home.mkdir(parents=True)
    npm = (node(), node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    # Without this package.json, npm would use one of a parent directory.
    if peer.lock is None:
        (peer.home / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        run(*npm, "install", "--prefix", peer.home, "--save-exact", *quiet, *peer.packages)
    else:
        shutil.copy(peer.lock, peer.home)
        shutil.copy(peer.lock.with_name("package.json"), peer.home)
        run(*npm, "ci", "--prefix", peer.home, *quiet)


def make(peer: Peer) -> str:
    """Create an environment unless it is up to date. Returns a status line. Raises: NotInstalledError."""
    # `make interop` and `make conformance` may run at the same time and need the same node.
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{peer.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _make(peer)


def _make(peer: Peer) -> str:
    stamp = peer.home / ".installed"
    wanted = stamp_of(peer)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return f"  {peer.name}: up to date"
    shutil.rmtree(peer.home, ignore_errors=True)
    began = time.monotonic()
    (make_python if peer.registry == "PyPI" else make_npm)(peer)
    if peer.program and not (peer.home / peer.program).exists():
        raise NotInstalledError(f"{peer.packages[0]} has no {peer.program}")
    stamp.write_text(wanted, encoding="utf-8")  # last, so that a stamp means a complete environment
    return f"  {peer.name}: {', '.join(peer.packages)} ({time.monotonic() - began:.0f} s)"


def main(names: list[str]) -> int:
    """Install the named peers, or all; return the exit code."""
    wanted = [BY_NAME[name] for name in names] or list(PEERS)
    HOME.mkdir(exist_ok=True)
    print(f"Peers in {HOME}:", flush=True)
    failed = []

    def attempt(peer: Peer) -> None:
        try:
            print(make(peer) + "\n", end="", flush=True)  # one write, because two threads print
        except (NotInstalledError, OSError) as error:
            failed.append(peer.name)
            print(f"  {peer.name}: CANNOT BE INSTALLED. {error}", file=sys.stderr, flush=True)

    attempt(NODE)  # first, because npm runs on it
    if not failed:
        with ThreadPoolExecutor(CONCURRENT_INSTALLS) as pool:
            list(pool.map(attempt, [peer for peer in wanted if peer is not NODE]))
    if failed:
        print(f"Not installed: {', '.join(failed)}. No peer is skipped: run make interop again.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
