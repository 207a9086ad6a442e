"""Change one entry in a configuration file of another program, as text, so that comments and layout are kept.

JSON (with comments and trailing commas, as editors write it), TOML and YAML. Every change is verified: the new text
must parse to the old document with that one entry changed. Otherwise nothing is written.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from jackstay.errors import UsageError
from jackstay.extras import install_command

Entry = dict[str, Any]


def read_text(text: str, form: str) -> dict[str, Any]:
    """Return the document. Raises: ValueError if it is invalid or not an object."""
    if not text.strip():
        return {}
    if form == "json":
        try:
            document = json.loads(_plain_json(text))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    elif form == "toml":
        import tomllib  # noqa: PLC0415  # only for hosts with TOML

        document = tomllib.loads(text)
    else:
        document = _read_yaml(text)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def change_entry(text: str, form: str, section: str, name: str, entry: Entry | None) -> str:
    """Return the text with `entry` as the entry `name` of `section`, or without it if it is None.

    Raises: ValueError if that cannot be done without changing anything else.
    """
    before = read_text(text, form)
    members = {} if before.get(section) is None else before[section]
    if not isinstance(members, dict):
        raise ValueError(f"{section!r} is not an object")
    if entry is None and name not in members:
        return text
    change = {"json": _change_json, "toml": _change_toml, "yaml": _change_yaml}[form]
    if (lines := text.count("\n")) and text.count("\r\n") == lines:  # a file with the line ends of Windows keeps them
        changed = change(text.replace("\r\n", "\n"), section, name, entry).replace("\n", "\r\n")
    else:
        changed = change(text, section, name, entry)
    expected = {key: value for key, value in members.items() if key != name}
    if entry is not None:
        expected[name] = entry
    try:
        after = read_text(changed, form)
    except ValueError:
        raise ValueError("it has a layout that this command cannot edit safely") from None
    others = {key: value for key, value in before.items() if key != section}
    if (after.pop(section, None) or {}) != expected or after != others:
        raise ValueError("it has a layout that this command cannot edit safely")
    return changed


# ---- JSON with comments ----


class _Member(NamedTuple):
    """The positions of one member of an object."""

    key: str
    start: int
    value: int
    end: int


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)(?=\n)")
_SCALAR = re.compile(r"[^\s,\]}/]+")


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _end_of_value(text: str, position: int) -> int:
    if text[position : position + 1] in ("{", "["):
        depth = 0
        while position < len(text):
            position = _after_space(text, position)
            character = text[position : position + 1]
            if character == '"':
                position = _match(_STRING, text, position).end()
                continue
            depth += character in ("{", "[")
            depth -= character in ("}", "]")
            position += 1
            if depth == 0:
                return position
        raise ValueError("an object has no closing bracket")
    return _match(_STRING if text[position : position + 1] == '"' else _SCALAR, text, position).end()


def _match(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    found = pattern.match(text, position)
    if found is None:
        raise ValueError(f"invalid JSON at character {position}")
    return found


def _members(text: str, position: int) -> Iterator[_Member]:
    """Iterate over the members of the object that begins at `position`."""
    position = _after_space(text, position + 1)
    while text[position : position + 1] not in ("}", ""):
        key = _match(_STRING, text, position)
        value = _after_space(text, _after_space(text, key.end()) + 1)  # after the colon
        end = _end_of_value(text, value)
        yield _Member(json.loads(key[0]), position, value, end)
        position = _after_space(text, end)
        if text[position : position + 1] == ",":
            position = _after_space(text, position + 1)


def _plain_json(text: str) -> str:
    """Return the text without comments and trailing commas."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        after = _after_space(text, position)
        if after > position:
            parts.append(" ")
            position = after
            continue
        if text[position] == '"':
            end = _match(_STRING, text, position).end()
        else:
            end = position + 1
            following = text[_after_space(text, end) : _after_space(text, end) + 1]
            if text[position] == "," and following in ("}", "]"):
                position = end
                continue
        parts.append(text[position:end])
        position = end
    return "".join(parts)


def _change_json(text: str, section: str, name: str, entry: Entry | None) -> str:
    if not text.strip():
        return json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    root = _after_space(text, 0)
    holder = next((member for member in _members(text, root) if member.key == section), None)
    if holder is None:
        return _insert(text, root, section, {name: entry}, 1)
    if text[holder.value] != "{":  # null
        return text[: holder.value] + _dump({name: entry}, _indent_unit(text), 1) + text[holder.end :]
    old = next((child for child in _members(text, holder.value) if child.key == name), None)
    if entry is None:
        assert old is not None  # the caller has looked
        return _remove(text, old)
    if old is not None:
        return text[: old.value] + _dump(entry, _indent_unit(text), 2) + text[old.end :]
    return _insert(text, holder.value, name, entry, 2)


def _indent_unit(text: str) -> str:
    """Return the indentation of the first member, or two spaces."""
    for member in _members(text, _after_space(text, 0)):
        line = text[: member.start].rpartition("\n")[2]
        return line if line and not line.strip() else "  "
    return "  "


def _dump(value: object, unit: str, depth: int) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{unit * depth}")


def _insert(text: str, start: int, key: str, value: object, depth: int) -> str:
    """Insert a member at the end of the object that begins at `start`."""
    unit, members = _indent_unit(text), list(_members(text, start))
    line = f"\n{unit * depth}{json.dumps(key, ensure_ascii=False)}: {_dump(value, unit, depth)}"
    if not members:
        end = _end_of_value(text, start) - 1
        kept = text[start + 1 : end].rstrip()
        return f"{text[: start + 1]}{kept}{line}\n{unit * (depth - 1)}{text[end:]}"
    last = members[-1].end
    comma = _after_space(text, last)
    if text[comma] == ",":  # a trailing comma: the new member has one as well
        last, line = comma + 1, f"{line},"
    else:
        text = f"{text[:last]},{text[last:]}"
        last += 1
    rest = _REST.match(text, last)
    if rest is not None:  # a comment on the same line
        last = rest.end()
    return text[:last] + line + text[last:]


def _remove(text: str, member: _Member) -> str:
    """Remove a member and one comma. Comments stay."""
    start, end = member.start, member.end
    comma = _after_space(text, end)
    if text[comma] == ",":
        end = comma + 1 if not text[end:comma].strip() else end
        if end == member.end:  # a comment stands before the comma
            text = text[:comma] + text[comma + 1 :]
    else:
        before = _comma_before(text, start)
        if before is not None:
            text = text[:before] + text[before + 1 :]
            start, end = start - 1, end - 1
    line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    if line_end >= 0 and not text[line_start:start].strip() and not text[end:line_end].strip():
        start, end = line_start, line_end + 1  # whole lines
    elif line_start and not text[line_start:start].strip():
        # The file was on one line before the member was added. After a comment its line must end.
        line = text[:line_start].rstrip("\r\n").rpartition("\n")[2]
        if "//" not in line:
            start = len(text[:line_start].rstrip("\r\n"))
    return text[:start] + text[end:]


def _comma_before(text: str, position: int) -> int | None:
    """Return the position of the comma before a member, if only space and comments are between them."""
    for comma in range(position - 1, -1, -1):
        if text[comma] == "," and _after_space(text, comma + 1) == position:
            return comma
    return None


# ---- TOML ----


def _change_toml(text: str, section: str, name: str, entry: Entry | None) -> str:
    kept = _without_tables(text, section, name)
    if entry is None:
        return kept
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    lines = [f"[{section}.{key}]"]
    lines += [f"{word} = {_toml(value)}" for word, value in entry.items() if not isinstance(value, dict)]
    for word, value in entry.items():
        if isinstance(value, dict):
            lines += ["", f"[{section}.{key}.{word}]"]
            lines += [f"{json.dumps(one, ensure_ascii=False)} = {_toml(two)}" for one, two in value.items()]
    gap = "\n" if kept.strip() else ""
    return f"{kept.rstrip()}\n{gap}{chr(10).join(lines)}\n".lstrip("\n")


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # the same for strings, lists of strings, numbers and booleans


def _without_tables(text: str, section: str, name: str) -> str:
    """Return the text without the tables of an entry. A comment before the next table stays."""
    words = rf"""(?:{re.escape(name)}|"{re.escape(name)}"|'{re.escape(name)}')"""
    own = re.compile(rf"^\s*\[\s*{re.escape(section)}\s*\.\s*{words}\s*[.\]]")
    kept: list[str] = []
    is_inside = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_inside = own.match(line) is not None
        if not is_inside or line.lstrip().startswith("#"):
            kept.append(line)
    while is_inside and kept and not kept[-1].strip():
        kept.pop()  # the blank line before the last entry
    return "".join(kept)


# ---- YAML ----


def _read_yaml(text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415  # only for hosts with YAML
    except ImportError as error:
        raise UsageError(f"YAML files require the extra `openapi`: {install_command('openapi')}") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from None


def _change_yaml(text: str, section: str, name: str, entry: Entry | None) -> str:
    lines = text.removesuffix("\n").split("\n") if text else []
    head = next((number for number, line in enumerate(lines) if re.match(rf"{re.escape(section)}\s*:", line)), None)
    if head is None:
        lines += [f"{section}:"]
        head = len(lines) - 1
    elif lines[head].split("#")[0].rstrip().endswith("{}"):
        lines[head] = f"{section}:"
    end = next((at for at in range(head + 1, len(lines)) if lines[at] and lines[at][0] not in " #"), len(lines))
    children = [at for at in range(head + 1, end) if lines[at].strip() and not lines[at].lstrip().startswith("#")]
    indent = len(lines[children[0]]) - len(lines[children[0]].lstrip()) if children else 2
    words = rf"""(?:{re.escape(name)}|"{re.escape(name)}"|'{re.escape(name)}')\s*:"""
    own = next((at for at in children if re.match(rf" {{{indent}}}{words}", lines[at])), None)
    if own is not None:
        after = next((at for at in children if at > own and len(lines[at]) - len(lines[at].lstrip()) <= indent), end)
        while after - 1 > own and (not lines[after - 1].strip() or lines[after - 1].lstrip().startswith("#")):
            after -= 1  # a comment before the next entry stays
        del lines[own:after]
        children = [at for at in children if at < own] + [at - (after - own) for at in children if at >= after]
    if entry is not None:
        # After the last entry and its comments, but before those of the next section.
        end = children[-1] + 1 if children else head + 1
        while end < len(lines) and lines[end].startswith(" ") and lines[end].strip():
            end += 1
        space = " " * indent
        added = [f"{space}{json.dumps(name, ensure_ascii=False)}:"]
        added += [f"{space * 2}{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        lines[end:end] = added
    return "\n".join(lines) + "\n"
