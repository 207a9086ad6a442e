"""Task logs: the tasks that a client has begun, so that a later process finds the outcome of its calls."""

import os
from pathlib import Path
from typing import Protocol

import msgspec

from jackstay.errors import UsageError


class LoggedTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that a client has begun: its id, the name of the client's connection, and the tool."""

    id: str
    server: str
    tool: str
    has_ended: bool = False


class TaskLog(Protocol):
    """Keeps the tasks whose outcome the program has not seen. The methods are called in a thread."""

    def began(self, task: LoggedTask) -> None:
        """Store a task durably."""

    def ended(self, task: LoggedTask) -> None:
        """Remove a task: the program has its outcome. An unknown one is not an error."""

    def pending(self) -> list[LoggedTask]:
        """Return the stored tasks, oldest first."""


_decode = msgspec.json.Decoder(LoggedTask).decode


class FileTaskLog:
    """A task log in a file, for one process at a time. Each line is a task that began or ended."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"<FileTaskLog {self._path}>"

    def began(self, task: LoggedTask) -> None:
        """Append the task. Raises: UsageError, if the file cannot be written."""
        self._append(task)

    def ended(self, task: LoggedTask) -> None:
        """Append the end of the task; if no other is pending, truncate the file. Raises: UsageError."""
        self._append(msgspec.structs.replace(task, has_ended=True))
        if not self.pending():
            os.truncate(self._path, 0)

    def pending(self) -> list[LoggedTask]:
        """Return the tasks that have not ended. A line that a crash cut off is ignored. Raises: UsageError."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"cannot read the task log {self._path}: {error.strerror}", path="task_log") from error
        found: dict[tuple[str, str], LoggedTask] = {}
        for line in lines:
            try:
                task = _decode(line)
            except msgspec.DecodeError:
                continue
            if task.has_ended:
                found.pop((task.server, task.id), None)
            else:
                found[task.server, task.id] = task
        return list(found.values())

    def _append(self, task: LoggedTask) -> None:
        try:
            with self._path.open("ab") as file:
                # A newline first: the last line may be one that a crash cut off.
                file.write(b"\n" + msgspec.json.encode(task) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UsageError(f"cannot write the task log {self._path}: {error.strerror}", path="task_log") from error
