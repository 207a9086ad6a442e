"""The outermost edge of a command: whatever comes, the shell gets an exit code and nobody gets a traceback.

A Ctrl-C may come while the command still loads, a second one while the first is obeyed, a reader may leave in the middle of a
line. Until a command has something to end in order (`_signals`, a server's `run()`), a signal ends the process on the
spot: a KeyboardInterrupt that is raised inside an import, a `__del__` or the interpreter's own last steps is printed by whoever
swallows it. Nothing is lost by that: what was written is written, and nothing was begun.

Before Python calls us, for its first few hundredths of a second, a Ctrl-C is the interpreter's to answer.

Must never know a command. Above: the `main` of each command. Below: the process.
"""

import os
import sys

from jackstay._lazy import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
else:
    try:
        # The half of `signal` that is part of the interpreter: there at once, where the other makes enums first.
        import _signal as signal
    except ImportError:  # pragma: no cover  # another Python than CPython
        import signal

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


def run_command(
    work: "Callable[[list[str]], int]",
    argv: "Sequence[str] | None",
    *,
    name: str,
    interrupted: int = INTERRUPTED,
    terminated: int | None = None,
    package: str = "",
    distribution: str = "",
) -> int:
    """Do `work(words)` and return the exit code; only defects are raised.

    `package` is an import package whose name another distribution also uses; `distribution` is ours. If the other one is
    installed beside it, the files of the two are mixed, and nothing is run.

    `argv` None: this process is the command's own, the words are those that were typed, and signals are taken over for good.
    `interrupted` is the code after Ctrl-C, `terminated` the one after SIGTERM (None: as the system has it).
    """
    if argv is None:
        _take_signals(interrupted, terminated)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, never a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    other = other_distribution(package) if package else ""
    if other:
        _tell(
            f"{name}: {other} and {distribution} both install the package {package}; "
            f"run: pip uninstall {other}, then: pip install --force-reinstall --no-deps {distribution}"
        )
        return USAGE
    try:
        try:
            code = work(sys.argv[1:] if argv is None else list(argv))
        except SystemExit as ended:
            # argparse leaves this way after --help, --version and a usage error, always with a number; a program that a
            # command loads may leave with words, which go where Python puts them.
            code = ended.code if isinstance(ended.code, int) else DONE if ended.code is None else FAILED
            if code == FAILED and isinstance(ended.code, str):
                _tell(ended.code)
        if sys.stdout is not None:  # None when the program was started with standard output closed
            # Flushed here, where a closed pipe can still be met quietly; at interpreter exit it is too late.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return DONE
    except KeyboardInterrupt:
        _discard_output()
        return interrupted
    except OSError as error:
        _tell(f"{name}: {error}")
        _discard_output()
        return FAILED
    _discard_output()
    return code


def other_distribution(package: str) -> str:
    """The installed distribution that is named as `package` is, or an empty string.

    Looks for its metadata directory, because reading the metadata of everything that is installed takes longer than a start.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        if any(name.startswith(f"{package}-") and name.endswith(".dist-info") for name in names):
            return package.replace("_", "-")
    return ""


def _take_signals(interrupted: int, terminated: int | None) -> None:
    codes: dict[int, int] = {signal.SIGINT: interrupted}
    if terminated is not None:
        codes[signal.SIGTERM] = terminated

    def leave(number: int, _: object) -> None:
        os._exit(codes[number])

    for number in codes:
        # One that is ignored stays ignored: a background job of a script is not meant by Ctrl-C.
        if signal.getsignal(number) != signal.SIG_IGN:
            try:
                signal.signal(number, leave)
            except ValueError:
                return  # not the main thread: they are somebody else's


def _tell(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads that, either


def _discard_output() -> None:
    """Write what is left; where it cannot be written, point the stream at nothing.

    Otherwise the interpreter tries once more on its way out, and ends with a complaint and an exit code of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


__all__ = ["DONE", "FAILED", "INTERRUPTED", "USAGE", "other_distribution", "run_command"]
