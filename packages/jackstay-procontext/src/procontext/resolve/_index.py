"""Which libraries a name means: exact by package, identifier and alias, in that order, then by likeness.

The first stage that finds anything wins, and all it found is returned, ranked (one package name can be on PyPI and npm). A
wrong library is worse than none, so likeness has bounds: the reference's 70 %, a number of edits that a typing mistake could
have made, no name that is whole words shorter than what was asked for (`fastapi-users` is not FastAPI), none that only goes on
where the other ends (`async` is not asyncpg), that begins otherwise, or that differs much in a short word. Names under four characters have too many neighbours,
and match exactly only.

An index never changes: a new registry is a new index. Must never know where the rows came from. Above: the registry.
Below: `_names`, `models`; rapidfuzz, loaded with the first name that nothing matches.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Final, NamedTuple

from procontext.models import Library, Match, MatchedVia
from procontext.resolve._names import canonical, normalise, packages_above, squashed

# Reference, 2.1.
LEAST_SCORE: Final = 70.0

LEAST_FUZZY_LENGTH: Final = 4
MOST_MATCHES: Final = 5

# (up to this length, so many characters may be missing or too many): a swap of two counts as two, and so does a wrong one.
# More would not be a slip of the finger any more; in a short name two are half of it.
EDITS: Final = ((4, 1), (8, 2), (500, 3))

# Of a word with fewer than four characters in a longer name: two that changed places, or one that is another.
MOST_SHORT_EDITS: Final = 2

# Few enough that names share them, and many enough that few do.
LETTER_BITS: Final = 16

_WORD: Final = re.compile(r"[a-z0-9]+")

# `winston.js` and `winstonjs` are winston, if that is on npm. Where a name with js is another project, it is named here.
_SCRIPT: Final = re.compile(r"(.{2,}?)[-_.\s]?js")
_OTHER_SCRIPTS: Final = frozenset(("angularjs", "angular.js"))


class _Likely(NamedTuple):
    """Every name there is, by its length and by the letters in it.

    Two names with few edits between them have nearly the same length and letters, so one look at a few bits rules most of
    them out: comparing each of a hundred thousand would take a twentieth of a second.
    """

    names: list[str]
    owners: list[Library]
    places: dict[int, dict[int, list[int]]]

    def near(self, bits: int, length: int, edits: int) -> list[int]:
        """The places of the names that so many edits could lead to, and of some others."""
        changes = bit_changes(edits)
        found: list[int] = []
        for size in range(length - edits, length + edits + 1):
            same_length = self.places.get(size, {})
            if len(same_length) < len(changes):
                for other, places in same_length.items():
                    if (other ^ bits).bit_count() <= edits:
                        found += places
            else:  # fewer changes than names: look for each
                for change in changes:
                    found += same_length.get(bits ^ change, ())
        return found


class Index:
    """The names of some libraries. The order of the rows is the order among equals."""

    def __init__(self, libraries: Iterable[Library]) -> None:
        self._ids: dict[str, Library] = {}
        self._packages: dict[str, tuple[Library, ...]] = {}
        self._aliases: dict[str, tuple[Library, ...]] = {}
        self._spellings: dict[str, tuple[Library, ...]] | None = None
        self._likely: _Likely | None = None
        self._lock = threading.Lock()
        for library in libraries:
            self._add(library)

    def __repr__(self) -> str:
        return f"<Index of {len(self._ids)} libraries>"

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Library]:
        return iter(self._ids.values())

    def get(self, library_id: str) -> Library | None:
        """The library with this identifier."""
        return self._ids.get(library_id)

    def resolve(self, query: str) -> list[Match]:
        """The libraries that a query may mean, best first; empty if none is likely enough."""
        name = normalise(query)
        if not name:
            return []
        found = self._named(name)
        if found is not None:
            libraries, via = found
            return [_match(library, via, 1.0) for library in libraries]
        return [_match(library, "fuzzy", round(score / 100, 2)) for library, score in self._similar(name)]

    @property
    def is_warm(self) -> bool:
        """Whether no name has to wait for anything to be made."""
        return self._likely is not None and self._spellings is not None

    def warm(self) -> None:
        """Make now, on whatever thread this is, what the first misspelt name would have to wait for."""
        from rapidfuzz import fuzz, process  # noqa: F401, PLC0415  # loaded, not used

        self._spelled("")
        self._names()

    # --- exactly ------------------------------------------------------------------------------------------------------

    def _add(self, library: Library) -> None:
        alone = (library,)
        self._ids[library.id] = library
        packages, aliases = self._packages, self._aliases
        for name in library.packages.pypi:
            _put(packages, name.lower(), alone)
            _put(packages, canonical(name.lower()), alone)
        for name in library.packages.npm:
            _put(packages, name.lower(), alone)
        for name in library.aliases:
            _put(aliases, name.lower(), alone)
        _put(aliases, library.name.lower(), alone)

    def owner(self, query: str) -> Library | None:
        """The first library that has exactly this name, in any spelling of it."""
        name = normalise(query)
        found = self._named(name) if name else None
        return None if found is None else found[0][0]

    def _named(self, name: str) -> tuple[Sequence[Library], MatchedVia] | None:
        found = self._exact(name)
        if found is None:
            for above in packages_above(name):
                found = self._exact(above)
                if found is not None:
                    break
        return self._script(name) if found is None else found

    def _exact(self, name: str) -> tuple[Sequence[Library], MatchedVia] | None:
        plain = canonical(name)
        packages = self._packages.get(name) or self._packages.get(plain)
        if packages is not None:
            return _ranked(packages, plain), "package_name"
        library = self._ids.get(name) or self._ids.get(plain)
        if library is not None:
            return (library,), "library_id"
        aliases = self._aliases.get(name) or self._aliases.get(plain) or self._spelled(squashed(name))
        return (_ranked(aliases, plain), "alias") if aliases else None

    def _script(self, name: str) -> tuple[Sequence[Library], MatchedVia] | None:
        """By a name with js behind it."""
        stem = _SCRIPT.fullmatch(name)
        found = self._exact(stem[1]) if stem is not None and name not in _OTHER_SCRIPTS else None
        scripts = [library for library in found[0] if library.packages.npm] if found is not None else []
        return (scripts, "alias") if scripts else None

    def _spelled(self, name: str) -> tuple[Library, ...] | None:
        """By any name at all, whatever its separators."""
        if self._spellings is None:
            with self._lock:
                if self._spellings is None:  # nobody else made it while this one waited
                    self._spellings = self._make_spellings()
        return self._spellings.get(name)

    def _make_spellings(self) -> dict[str, tuple[Library, ...]]:
        spellings: dict[str, tuple[Library, ...]] = {}
        for library in self:
            alone = (library,)
            for one in _names_of(library):
                _put(spellings, squashed(one), alone)
        return spellings

    # --- by likeness --------------------------------------------------------------------------------------------------

    def _names(self) -> _Likely:
        if self._likely is None:
            with self._lock:
                if self._likely is None:
                    self._likely = self._make_likely()
        return self._likely

    def _make_likely(self) -> _Likely:
        likely = _Likely([], [], {})
        for library in self:
            for name in _names_of(library):
                if len(name) < LEAST_FUZZY_LENGTH:
                    continue
                same_length = likely.places.setdefault(len(name), {})
                same_length.setdefault(letters(name), []).append(len(likely.names))
                likely.names.append(name)
                likely.owners.append(library)
        return likely

    def _similar(self, name: str) -> list[tuple[Library, float]]:
        length = len(name)
        if length < LEAST_FUZZY_LENGTH:
            return []
        from rapidfuzz import fuzz, process  # noqa: PLC0415  # 20 ms that an exact name does not need

        likely = self._names()
        edits = most_edits(length)
        near = likely.near(letters(name), length, edits)
        # No name with so few edits scores less than this, and the higher the bound the faster the search.
        least = max(LEAST_SCORE, 100 * (1 - edits / (2 * length - edits)) - 0.001)
        names = likely.names
        found = process.extract(
            name, [names[place] for place in near], scorer=fuzz.ratio, score_cutoff=least, limit=None
        )
        best: dict[str, tuple[Library, float]] = {}
        for candidate, score, place in found:
            library = likely.owners[near[place]]
            if library.id in best or round((1 - score / 100) * (length + len(candidate))) > edits:
                continue
            if _begins_alike(candidate, name) and not (
                _is_shortened(candidate, name) or _goes_on(candidate, name) or _is_sibling(candidate, name)
            ):
                best[library.id] = (library, score)
                if len(best) == MOST_MATCHES:
                    break
        return list(best.values())


def letters(name: str) -> int:
    """A bit for each character that a name has, sixteen in all. One edit changes one bit at most."""
    bits = 0
    for character in set(name):
        bits |= 1 << (ord(character) % LETTER_BITS)
    return bits


@cache
def bit_changes(edits: int) -> tuple[int, ...]:
    """Every way in which so many edits, or fewer, can change the letters of a name."""
    return tuple(
        sum(1 << bit for bit in chosen)
        for count in range(edits + 1)
        for chosen in combinations(range(LETTER_BITS), count)
    )


def most_edits(length: int) -> int:
    """How many characters a name of this length may be off."""
    return next((edits for longest, edits in EDITS if length <= longest), 0)


def _is_shortened(candidate: str, name: str) -> bool:
    """True if the candidate is the name without some of its words: another package of the same family, not a mistake."""
    words = _WORD.findall(name)
    kept = _WORD.findall(candidate)
    if len(kept) >= len(words):
        return False
    for word in kept:
        if word not in words:
            return False
        words.remove(word)
    return True


def _is_sibling(candidate: str, name: str) -> bool:
    """True if they differ in one short word by more than a slip: `react-foo` is not React Flow."""
    from rapidfuzz.distance import Indel  # noqa: PLC0415  # loaded already, by who asks

    pairs = list(zip(_WORD.findall(candidate), _WORD.findall(name), strict=False))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if len(pairs) < 2 or len(differing) != 1:
        return False
    mine, theirs = differing[0]
    return (
        min(len(mine), len(theirs)) < LEAST_FUZZY_LENGTH and Indel.distance(mine, theirs) > MOST_SHORT_EDITS
    )


def _begins_alike(candidate: str, name: str) -> bool:
    """True if both begin with the same letter, or one slip at the beginning is all that there is: a first letter is seldom wrong,
    and names that differ in it are mostly other names (`bcrypt` is not crypto)."""
    return (
        candidate[0] == name[0]
        or candidate[1:] in (name, name[1:])
        or name[1:] == candidate
        or (candidate[:2] == name[1::-1] and candidate[2:] == name[2:])
    )


def _goes_on(candidate: str, name: str) -> bool:
    """True if one is the other and two characters or more behind it: nobody's finger slips that way."""
    shorter, longer = sorted((candidate, name), key=len)
    return len(longer) - len(shorter) >= 2 and longer.startswith(shorter)


def _names_of(library: Library) -> set[str]:
    """Every name of a library, in lower case."""
    packages = library.packages
    return {
        name.lower()
        for name in (library.id, library.name, *packages.pypi, *packages.npm, *library.aliases)
        if name
    }


def _put(into: dict[str, tuple[Library, ...]], name: str, alone: tuple[Library, ...]) -> None:
    known = into.get(name)
    if known is None:
        into[name] = alone
    elif alone[0] not in known:
        into[name] = (*known, *alone)


def _ranked(libraries: tuple[Library, ...], name: str) -> Sequence[Library]:
    """The one that is called just so first, then the order of the registry."""
    return libraries if len(libraries) == 1 else sorted(libraries, key=lambda library: library.id != name)


def _match(library: Library, via: MatchedVia, relevance: float) -> Match:
    return Match(library.id, library.name, library.languages, library.docs_url, via, relevance)


__all__ = ["LEAST_SCORE", "MOST_MATCHES", "Index", "most_edits"]
