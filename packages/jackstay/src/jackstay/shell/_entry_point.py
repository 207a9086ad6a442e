"""The entry point of a command: return an exit code, without a traceback after a signal or a closed pipe.

Until a command installs its own handlers (`_signals`, `Server.run()`), a signal terminates the process at once: a
KeyboardInterrupt during an import, in a `__del__` or at interpreter exit would be printed as a traceback.
"""

import os
import sys

from jackstay._lazy import TYPE_CHECKING
from jackstay.shell._status_line import erase_before_exit

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
else:
    # The built-in half of `signal`: its import is faster, because it creates no enums. Only CPython must have it, and
    # msgspec supports no other Python.
    import _signal as signal

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
    """Run `work(words)` and return the exit code. Only unexpected exceptions are raised.

    Args:
        work: gets the command-line arguments and returns an exit code.
        argv: the arguments. None: use `sys.argv`, and install signal handlers, because the process is the command's.
        name: the name of the command, for error messages.
        interrupted: the exit code after SIGINT.
        terminated: the exit code after SIGTERM; None keeps the default action.
        package: an import package whose name another distribution also uses.
        distribution: the distribution that installs `package`. If the other one is installed too, their files are
            mixed, and the command refuses to run.
    """
    if argv is None:
        _install_signal_handlers(interrupted, terminated)
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot encode is printed as an escape instead of raising UnicodeEncodeError.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    other = other_distribution(package) if package else ""
    if other:
        _print_error(
            f"{name}: {other} and {distribution} both install the package {package}; "
            f"run: pip uninstall {other}, then: pip install --force-reinstall --no-deps {distribution}"
        )
        return USAGE
    try:
        try:
            code = work(sys.argv[1:] if argv is None else list(argv))
        except SystemExit as ended:
            # argparse raises SystemExit with a number after --help, --version and a usage error. Code that a command
            # loads may raise it with a message, which is printed to standard error, as Python does.
            code = ended.code if isinstance(ended.code, int) else DONE if ended.code is None else FAILED
            if code == FAILED and isinstance(ended.code, str):
                _print_error(ended.code)
        if sys.stdout is not None:  # None if the program was started with standard output closed
            # Flushed here, because a closed pipe cannot be handled at interpreter exit.
            sys.stdout.flush()
    except BrokenPipeError:
        code = DONE
    except KeyboardInterrupt:
        code = interrupted
    except OSError as error:
        _print_error(f"{name}: {error}")
        code = FAILED
    _discard_output()
    return code


def other_distribution(package: str) -> str:
    """Return the installed distribution that has the same name as `package`, or an empty string.

    Looks only for its metadata directory: reading the metadata of all distributions takes too long.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        if any(name.startswith(f"{package}-") and name.endswith(".dist-info") for name in names):
            return package.replace("_", "-")
    return ""


def _install_signal_handlers(interrupted: int, terminated: int | None) -> None:
    codes: dict[int, int] = {signal.SIGINT: interrupted}
    if terminated is not None:
        codes[signal.SIGTERM] = terminated

    def exit_at_once(number: int, _: object) -> None:
        erase_before_exit()
        os._exit(codes[number])

    for number in codes:
        # An ignored signal stays ignored: Ctrl-C does not concern a background job of a script.
        if signal.getsignal(number) != signal.SIG_IGN:
            try:
                signal.signal(number, exit_at_once)
            except ValueError:
                return  # not the main thread


def _print_error(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        pass  # standard error is closed, too


def _discard_output() -> None:
    """Flush the standard streams. A stream that cannot be written is redirected to the null device.

    Otherwise the interpreter flushes again at exit, prints the error and changes the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
