"""The search index: one FTS5 table for each library, and the ranking of sections.

A table of its own gives each library its own word statistics: another library in the same file changes nothing. Table
0 has the pages that belong to no library yet. A section is scored by BM25 for each term of the query on its own, so
that the share of the terms that it has can be taken into account.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

import msgspec

from procontext.cache._rows import Section
from procontext.cache._terms import (
    extra_words,
    heading_counter,
    heading_matcher,
    is_about_changes,
    is_name,
    is_page_of_changes,
    is_signature,
    match_expression,
    names_object,
    object_name,
    phrase_words,
    query_terms,
    synonyms,
    weights,
    without_link_targets,
)
from procontext.models import Hit

SEARCH_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS libraries (number INTEGER PRIMARY KEY, library_id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS sections (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, line INTEGER NOT NULL, lines INTEGER NOT NULL, anchor TEXT NOT NULL,
    path BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS sections_key ON sections (key);
CREATE VIRTUAL TABLE IF NOT EXISTS text_0 USING fts5 (
    heading, names, parents, body, extra, tokenize = "porter unicode61 tokenchars '_'"
);
"""
# Weights of the columns: the heading, parts of names in it, its parent headings, the text, parts of names in it.
_WEIGHTS: Final = "10.0, 6.0, 4.0, 1.0, 0.3"
# How many sections are ranked, and how many hits are compared with each other.
_CANDIDATES: Final = 300
_COMPARED: Final = 60
# The time of a search grows with the occurrences of its terms. Of a query with more than this, only the rarest terms
# are searched for, but at least three: words that most sections have add next to nothing to BM25.
_MAX_OCCURRENCES: Final = 150_000
_MIN_TERMS: Final = 3
# The occurrences of a term from which their total is estimated.
_SAMPLE: Final = 1_000
# The numbers below were chosen with the tuned half of tests/search_quality.
# How much a synonym counts, compared with the word itself.
_SYNONYM_FACTOR: Final = 0.6
_SYNONYM_SHARE: Final = 0.3
# How much a word for a phrase of the query counts, compared with a word of the query.
_PHRASE_FACTOR: Final = 0.6
# How much the best sections of the page for each term count, compared with the section itself.
_PAGE_FACTOR: Final = 0.5
# The power of the share of the terms that a section has.
_SHARE_POWER: Final = 0.65
_CHANGES_FACTOR: Final = 0.4
# For a signature, if the query is not a name: for a question, an explanation is better than a reference.
_SIGNATURE_FACTOR: Final = 0.4
# For the share of the words of the heading that the query has, and for their number.
_HEADING_SHARE: Final = 0.3
_HEADING_COUNT: Final = 0.5
_PARENT_COUNT: Final = 0.4
_EXACT_FACTOR: Final = 3.0
# For the section whose anchor is the complete name of the object.
_ANCHOR_FACTOR: Final = 2.0
# For each further section of the same page.
_SAME_PAGE_FACTOR: Final = 0.8
# Equal beginnings of this length under the same name are copies: a method and the same method of a subclass.
_COPY_LENGTH: Final = 80
_MAX_COPIES: Final = 3

_paths = msgspec.json.Decoder(tuple[str, ...])
_encode = msgspec.json.encode


def library_number(connection: sqlite3.Connection, library_id: str, *, create: bool = False) -> int | None:
    """Return the number of the table of a library. With `create`, inside a transaction, make the table."""
    row = connection.execute("SELECT number FROM libraries WHERE library_id = ?", (library_id,)).fetchone()
    if row is not None or not create:
        return None if row is None else int(row[0])
    number = connection.execute("INSERT INTO libraries (library_id) VALUES (?)", (library_id,)).lastrowid
    (schema,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'text_0'").fetchone()
    connection.execute(schema.replace("text_0", f"text_{number}", 1))
    return number


def tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all tables of the index."""
    rows = connection.execute("SELECT number FROM libraries ORDER BY number")
    return ["text_0", *(f"text_{number}" for (number,) in rows)]


def tables_with(connection: sqlite3.Connection, key: str) -> list[str]:
    """Return the tables that have the sections of a document."""
    rows = connection.execute(
        "SELECT l.number FROM memberships m JOIN libraries l ON l.library_id = m.library_id WHERE m.key = ?", (key,)
    )
    return [f"text_{number}" for (number,) in rows] or ["text_0"]


def insert_sections(connection: sqlite3.Connection, key: str, sections: Iterable[Section]) -> None:
    """Store the sections of a document, for each library that it belongs to."""
    names = tables_with(connection, key)
    for section in sections:
        row = connection.execute(
            "INSERT INTO sections (key, line, lines, anchor, path) VALUES (?, ?, ?, ?, ?)",
            (key, section.line, section.lines, section.anchor, _encode(section.path)),
        )
        body = without_link_targets(section.body.encode("utf-8", "replace").decode("utf-8"))
        heading = section.path[-1] if section.path else ""
        parents = " / ".join(map(object_name, section.path[:-1]))
        name = object_name(heading)
        parameters = heading[len(name) :] if is_signature(heading) and heading.startswith(name) else ""
        heading = heading.removesuffix(parameters)
        extra = f"{extra_words(body)} {parameters}".strip()
        values = (row.lastrowid, heading, extra_words(name), parents, body, extra)
        for name in names:
            columns = "(rowid, heading, names, parents, body, extra)"
            connection.execute(f"INSERT INTO {name} {columns} VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608


def delete_sections(connection: sqlite3.Connection, key: str) -> None:
    """Delete the sections of a document, also from the search index."""
    for name in tables_with(connection, key):
        connection.execute(f"DELETE FROM {name} WHERE rowid IN (SELECT id FROM sections WHERE key = ?)", (key,))  # noqa: S608
    connection.execute("DELETE FROM sections WHERE key = ?", (key,))


def join_library(connection: sqlite3.Connection, library_id: str, key: str) -> None:
    """Add a document and its sections to a library, unless it belongs to it."""
    before = tables_with(connection, key)
    if not connection.execute("INSERT OR IGNORE INTO memberships VALUES (?, ?)", (library_id, key)).rowcount:
        return
    number = library_number(connection, library_id, create=True)
    connection.execute(
        f"INSERT INTO text_{number} (rowid, heading, names, parents, body, extra)"  # noqa: S608
        f" SELECT rowid, heading, names, parents, body, extra FROM {before[0]}"
        " WHERE rowid IN (SELECT id FROM sections WHERE key = ?)",
        (key,),
    )
    if before == ["text_0"]:
        connection.execute("DELETE FROM text_0 WHERE rowid IN (SELECT id FROM sections WHERE key = ?)", (key,))


class _Candidate(msgspec.Struct):
    id: int
    url: str
    line: int
    lines: int
    anchor: str
    path: tuple[str, ...]
    start: str
    score: float = 0.0
    terms: float = 0.0  # how many terms it has; a synonym counts less


def search_library(connection: sqlite3.Connection, library_id: str, query: str, limit: int) -> list[Hit]:
    """Return the sections of a library that match a query, best first."""
    number, terms = library_number(connection, library_id), query_terms(query)
    if number is None or not terms:
        return []
    name = is_name(query)
    return _Ranking(connection, f"text_{number}", terms, () if name else phrase_words(query), name).hits(limit)


class _Ranking:
    """One search in one table."""

    def __init__(
        self, connection: sqlite3.Connection, table: str, terms: Sequence[str], more: Sequence[str], is_name: bool
    ) -> None:
        self._connection = connection
        self._table = table
        self._all_terms = terms
        self._is_name = is_name
        counts = [self._count(match_expression(term)) for term in terms]
        rarest = sorted(range(len(terms)), key=counts.__getitem__)
        total = list(accumulate(counts[at] for at in rarest))
        kept = sorted(at for at, up_to in zip(rarest, total, strict=True) if up_to <= _MAX_OCCURRENCES)
        kept = kept if len(kept) >= _MIN_TERMS else sorted(rarest[:_MIN_TERMS])
        self._terms = [terms[at] for at in kept]
        # Words for the phrases of the query raise the score of a section, but none needs to have them.
        self._weights = [*(weights(terms)[at] for at in kept), *(_PHRASE_FACTOR for _ in more)]
        counts = [*(counts[at] for at in kept), *(self._count(match_expression(word)) for word in more)]
        every = (*self._terms, *more)
        # Words that begin with a term, if no section has it.
        self._expressions = [
            match_expression(term, is_prefix=not count) for term, count in zip(every, counts, strict=True)
        ]
        self._synonyms = ["" if is_name else " OR ".join(f'"{word}"' for word in synonyms(term)) for term in every]
        self._any = " OR ".join(f"({expression})" for expression in (*self._expressions, *self._synonyms) if expression)

    def _count(self, expression: str) -> int:
        """Return how many sections match, or an estimate from the first ones if there are many."""
        table = self._table
        found, last = self._connection.execute(
            f"SELECT count(*), max(rowid) FROM (SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {_SAMPLE})",  # noqa: S608
            (expression,),
        ).fetchone()
        if found < _SAMPLE:
            return int(found)
        sql = f"SELECT count(*) FROM {table}_docsize WHERE id <= ?"  # noqa: S608
        (before,) = self._connection.execute(sql, (last,)).fetchone()
        return int(found / before * self._size)

    @cached_property
    def _size(self) -> int:
        (count,) = self._connection.execute(f"SELECT count(*) FROM {self._table}_docsize").fetchone()  # noqa: S608
        return int(count)

    def hits(self, limit: int) -> list[Hit]:
        """Return the best sections, without copies."""
        candidates = self._candidates()
        self._score(candidates, [self._scores(at, candidates) for at in range(len(self._expressions))])
        ranked = sorted(candidates.values(), key=lambda candidate: -candidate.score)
        kept = _without_copies(_spread(ranked[: max(_COMPARED, 2 * limit)]), limit)
        snippets = self._snippets([candidate.id for candidate, _ in kept])
        return [
            Hit(
                url=candidate.url,
                line=candidate.line,
                heading_path=candidate.path,
                snippet=" ".join(snippets.get(candidate.id, "").split()),
                score=candidate.score,
                anchor=candidate.anchor,
                lines=candidate.lines,
                copies=copies,
            )
            for candidate, copies in kept
        ]

    def _candidates(self) -> dict[int, _Candidate]:
        table = self._table
        rows = self._connection.execute(
            f"SELECT s.id, s.key, s.line, s.lines, s.anchor, s.path, substr(f.body, 1, {_COPY_LENGTH})"  # noqa: S608
            f" FROM (SELECT rowid AS id FROM {table} WHERE {table} MATCH ?"
            f" ORDER BY bm25({table}, {_WEIGHTS}) LIMIT {_CANDIDATES}) best"
            f" JOIN sections s ON s.id = best.id JOIN {table} f ON f.rowid = best.id",
            (self._any,),
        )
        return {
            id: _Candidate(id, url, line, lines, anchor, _paths.decode(path), start)
            for id, url, line, lines, anchor, path, start in rows
        }

    def _scores(self, at: int, candidates: Mapping[int, _Candidate]) -> dict[int, float]:
        """Return the score of the candidates that have a term, or a synonym of it, and count the term for them."""
        table, ids = self._table, ",".join(map(str, candidates))
        found: dict[int, float] = {}
        # `+rowid`: with an index, SQLite would run one query for each id, and compute the statistics of BM25 each time.
        sql = f"SELECT rowid, -bm25({table}, {_WEIGHTS}) FROM {table} WHERE {table} MATCH ? AND +rowid IN ({ids})"  # noqa: S608
        for expression, factor, count in (
            (self._expressions[at], 1.0, 1.0),
            (self._synonyms[at], _SYNONYM_FACTOR, _SYNONYM_SHARE),
        ):
            for id, score in self._connection.execute(sql, (expression,)) if expression else ():
                candidates[id].terms += 0.0 if id in found or at >= len(self._terms) else count
                found[id] = max(found.get(id, 0.0), factor * self._weights[at] * score)
        return found

    def _score(self, candidates: Mapping[int, _Candidate], scores: Sequence[Mapping[int, float]]) -> None:
        best: dict[str, list[float]] = {}
        for candidate in candidates.values():
            of_page = best.setdefault(candidate.url, [0.0] * len(scores))
            for at, found in enumerate(scores):
                of_page[at] = max(of_page[at], found.get(candidate.id, 0.0))
        terms = self._all_terms
        is_exact, about_changes = heading_matcher(terms), is_about_changes(terms)
        heading_share = heading_counter(terms)
        for candidate in candidates.values():
            own = [found[candidate.id] for found in scores if candidate.id in found]
            share = max(candidate.terms, _SYNONYM_SHARE) / len(self._terms)
            score = (sum(own) + _PAGE_FACTOR * sum(best[candidate.url])) * share**_SHARE_POWER
            if not self._is_name and candidate.path:
                count, share = heading_share(candidate.path[-1])
                above = max((heading_share(heading)[0] for heading in candidate.path[:-1]), default=0.0)
                score *= (1 + _HEADING_SHARE * share) * (1 + _HEADING_COUNT * min(count, 3) / 3)
                score *= 1 + _PARENT_COUNT * min(above, 3) / 3
            if is_exact(candidate.path):
                score *= _EXACT_FACTOR
            if self._is_name and names_object(candidate.anchor, terms):
                # Of objects with the same name, the one nearest to its module: a function before a method.
                score *= _ANCHOR_FACTOR + 1 / candidate.anchor.count(".")
            if not self._is_name and candidate.path and is_signature(candidate.path[-1]):
                score *= _SIGNATURE_FACTOR
            if not (about_changes or self._is_name) and is_page_of_changes(candidate.url):
                score *= _CHANGES_FACTOR
            candidate.score = score

    def _snippets(self, ids: Sequence[int]) -> dict[int, str]:
        table = self._table
        rows = self._connection.execute(
            f"SELECT rowid, snippet({table}, 3, '', '', ' … ', 24) FROM {table} WHERE {table} MATCH ?"  # noqa: S608
            f" AND +rowid IN ({','.join(map(str, ids))})",
            (self._any,),
        )
        return dict(rows.fetchall())


def _spread(ranked: Sequence[_Candidate]) -> list[_Candidate]:
    """Rank each further section of a page lower."""
    seen: dict[str, int] = {}
    for candidate in ranked:
        count = seen.get(candidate.url, 0)
        seen[candidate.url] = count + 1
        candidate.score *= _SAME_PAGE_FACTOR**count
    return sorted(ranked, key=lambda candidate: -candidate.score)


def _without_copies(ranked: Iterable[_Candidate], limit: int) -> list[tuple[_Candidate, tuple[str, ...]]]:
    """Return the first of each group of copies, with the addresses of the others."""
    groups: dict[tuple[str, str], tuple[_Candidate, list[str]]] = {}
    for candidate in ranked:
        name = object_name(candidate.path[-1]).rpartition(".")[2] if candidate.path else ""
        key = (name, " ".join(candidate.start.split())) if candidate.start else ("", str(candidate.id))
        if key in groups:
            groups[key][1].append(f"{candidate.url}#{candidate.anchor}")
        else:
            groups[key] = (candidate, [])
    return [(first, tuple(copies[:_MAX_COPIES])) for first, copies in list(groups.values())[:limit]]


__all__ = ["SEARCH_SCHEMA", "delete_sections", "insert_sections", "join_library", "search_library", "tables"]
