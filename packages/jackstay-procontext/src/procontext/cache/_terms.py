"""Words of queries and of sections: stop words, parts of names, and pairs of Chinese and Japanese characters."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

_WORD = re.compile(r"\w+")
# Where the name of a documented object ends and its parameters, type or value begin.
_BEHIND_NAME = re.compile(r"[(:=→]|->")
# Names of several words: camelCase and snake_case.
_NAME = re.compile(r"\b\w*(?:[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Z][A-Z][a-z])\w*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SIGNATURE = re.compile(
    r"[\w.]+\(|(?:class|property|exception|async|classmethod|staticmethod|abstractmethod)\s|[\w.]+\s*[:=]\s|\S*[._]\w+$"
)
# Scripts that are written without spaces: Chinese characters, Hiragana, Katakana.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_LINK_TARGET = re.compile(r"\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")

_STOP_WORDS = """
a about all also am an and any are as at be been being but by can cannot could did do does doing don for from get
getting gets give given go got had has have having how i if in instead into is it its just let like make makes making
may me might must my need needs no not of off on one only or our out over per should so some someone something such t
than that the their them then there these they thing things this those to too up us use used uses using via want was way
ways we were what when where which while who whose why will with without would you your
"""
# Words that identify no subject: they weigh less than the others.
_WEAK_WORDS = """
after again allow always another answer back before below between both call change check code come different each else
every everything example exist few find first full happen help instead itself keep kind know large last leave library
long look lot many mean more most much never new next nothing now number other own part people place possible program
project prevent put python read really right same see set several show single small stop support sure take time
try turn two type value want whether whole work write wrong
"""
# Groups of words that documentation uses for each other. A word of the same group counts less than the word itself.
_SYNONYM_GROUPS = """
abort cancel kill stop terminate shutdown interrupt
add create insert make new append
again repeat retry
alias rename
alternate cycle
annotation hint
argument parameter
asynchronous async asyncio coroutine await
authenticate authentication auth login signin credential
background asynchronous concurrent parallel
cache caching store stored
callback handler hook listener
calculate compute derived computed
check validate validation verify verification
class subclass type
color colour ansi style
combine join merge
command cli terminal console
compare comparison equality
compress compression gzip
config configuration configure setting option
connection connect pool
convert conversion transform serialize
copy duplicate
cron crontab periodic recurring schedule
custom own extend customize
database db sql
default fallback
delete drop remove
deploy deployment production
directory folder
drop ignore exclude skip omit filter
duration timedelta
email mail
error exception fail failure crash
event notify notification signal
fast performance speed slow optimize
fetch retrieve download load
file path
frozen immutable immutability readonly
https ssl tls certificate
hide hidden secret
image picture
inherit inheritance subclass
install installation setup
iterate iteration loop
language locale translation translate internationalization i18n gettext
limit max maximum restrict bound size
log logging
mandatory required
map mapping dictionary dict
memory leak
message text
multiple several many repeated repeatable
nested nesting circular
notice message flash
order sort ordering priority
overlap concurrent instances
parse parsing
password secret credential
permission protect restrict authorization
persist save store
print display render output
random seed randomness
repeatable multiple
response reply
route routing url
safe secure security
send post submit
session cookie
simulate mock fake test
start launch run
test testing
thread concurrency
time date datetime
timeout deadline wait
undefined missing unknown
upload multipart
upsert insert update exist
user input prompt
version release
ambiguous fold dst daylight
api interface
array list sequence
attach add include
attribute field property
automatic automatically discovery detect
avoid prevent disable
backoff exponential longer delay
ban banned block blocked
body content payload
break interrupt abort
browser html web
build compile package
bulk batch many
cancel remove abort revoke
capture record collect
chain chaining several sequence
choose select choice
clean clear reset flush
client session
close shutdown exit
column field
compatible compatibility support
complete completion autocomplete suggest tab
condition conditional if branch
constructor init creation instantiate
count number total
currency money price
debug debugging inspect trace
declare define definition
delay later countdown eta schedule
dependency requirement require depend
discard ignore expire drop
document documentation docs
dump serialize serialization encode write
dynamic runtime
element item entry
empty blank null none missing
enable activate
encode encoding charset unicode
environment env variable
equal compare comparison equality
escape quote quoting sanitize
execute run invoke
exit quit close
expire expiration expiry ttl timeout
export output write
express expression
extra additional optional
first priority order
format formatting formatter render
function callable
generate generator produce
global shared
group category section
header headers
id identifier key
import load module
inject dependency provide
inside within nested
isolate isolation sandbox
iterate each every
key name
last final end
lazy lazily deferred
length size
link url href
list enumerate show
local timezone
lock mutex exclusive
manual custom
match pattern regex
merge combine update
middleware hook
modify change update mutate
multiple several repeated
mutable default factory
name rename alias
object instance
offset page pagination paginate limit
old previous legacy
once single one
open start
operating platform windows linux macos
optional default
override replace overwrite
page pagination
part piece chunk section
pass argument provide
pause suspend resume
plugin extension addon
port address host bind
position location path index
priority urgent order
privacy sensitive secret redact mask
progress status
proxy forward reverse
queue broker
range interval between
rate throttle limit
raw binary bytes
reader consumer
recursion recursive circular
redirect location
reference refer link
regex regular expression pattern
register registration
reload refresh restart
reproducible seed deterministic same
require mandatory must
restore recover undo
result return output
role permission group
rollback revert undo
row record
rule constraint
script program standalone
search find query lookup
see show view display inspect
share reuse common
skip ignore
slug name
split separate divide
state status
static asset
stream streaming chunk iterate
string text str
structure layout organize
suite test
switch toggle enable
table model
tag label
template render
temporary temp
text string
track trace monitor
traceback exception stack
transaction atomic commit
transform convert map
trigger event
truncate cut limit
unique distinct
unit test
update upgrade change
verbose verbosity
view endpoint handler
visible visibility hide
warn warning
wildcard glob pattern
wrap wrapper decorator
zone timezone
age expire lifetime
alter migrate schema
attempt retry try
crawl follow visit
duplicate unique distinct dedupe
exponential backoff
foreign relationship related join
interval period
memoize cache remember
mute silence suppress quiet
sign signature tamper verify
stub mock fake patch
theme style appearance
trim strip whitespace
"""
# Phrases of questions, with the words that documentation uses for them.
_PHRASES = """
all at once: bulk batch
all or nothing: atomic transaction
all the time: continuous
allowed values: choices enum validate
as it arrives: stream
at least: minimum
at midnight: schedule crontab
at most: maximum
at startup: startup initialization
at the same time: concurrent parallel
behind a proxy: proxy
between processes: shared
break up: split
by default: default
by hand: manual
by itself: automatic
by name: keyword
clean up: cleanup teardown
command line: cli command
data files: data include resources
depend on: dependency
each other: mutual
every day: periodic schedule cron
every hour: periodic schedule cron
every minute: periodic schedule interval
fail fast: strict
find out: determine
from the command line: cli
from the outside: external
get rid of: remove
give up after: stop attempts
give up: abort fail
go first: priority
go on: resume continue
half done: rollback transaction
how long: duration
how many: number count
if it exists: upsert
in the background: background
in two places: shared reuse
keep alive: keepalive
keep open: persistent keepalive
keep track: track
leave out: omit exclude
left out: omit exclude
line by line: stream iterate
log in: login
logged in: login authentication
longer and longer: exponential backoff
look like: style theme
look up: lookup
make sure: ensure
more than once: multiple repeated
more than one: multiple
no longer: deprecated
of my own: custom
on its own: standalone automatic
on the fly: dynamic
one after the other: sequential
one by one: iterate
only once: once single
only some: subset partial filter
out of the box: default builtin
own type: custom type
piece by piece: stream chunk
put together: combine
read only: immutable readonly
related rows: relationship foreign join
right away: immediate
run again: retry
run out: exhaust limit
same results: seed deterministic
save to: export output
set up: setup configure
shut down: shutdown stop
slow down: throttle delay rate
speed up: performance
spread over: split multiple
step by step: tutorial
switch off: disable
switch on: enable
take apart: parse split
tear down: teardown
the same way: consistent
thread safe: thread locking
throw away: discard expire
too big: limit maximum size
too fast: throttle rate limit delay
too large: limit maximum size
too late: expire expiration
too long: timeout limit
too many: limit
too often: throttle rate limit
too slow: performance timeout
turn into: convert
turn off: disable
turn on: enable
two copies: concurrent instances
under test: testing
unknown fields: extra unknown
up to date: current
when it fails: error retry failure
when something fails: error handling failure
without blocking: asynchronous nonblocking
"""
_CHANGES = """
change changed changelog changes deprecated history migrate migrating migration new news release released releases
removed upgrade upgrading version versions whatsnew
"""
# Words of a question that are not about its subject.
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
# A query with one of these words is about versions, so that pages with changes are not ranked lower.
_ABOUT_CHANGES: Final = frozenset(_CHANGES.split())
_WEAK: Final = frozenset(_WEAK_WORDS.split())
_WEAK_FACTOR: Final = 0.4


def _groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, dict[str, None]] = {}
    for line in _SYNONYM_GROUPS.split("\n"):
        for word in line.split():
            groups.setdefault(word, {}).update(dict.fromkeys(line.split()))
    return {word: tuple(other for other in others if other != word) for word, others in groups.items()}


_SYNONYMS: Final = _groups()
_ENDINGS: Final = ("ing", "ies", "es", "ed", "s")
_MIN_STEM_LENGTH: Final = 3
_CHANGES_PAGE = re.compile(
    r"(?:^|[/_.-])(?:change(?:s|log|_?log)?|history|news|releases?|release[_-]?notes?|what[s_-]*new|authors|"
    r"contribut(?:ors|ing)|deprecated|legacy|release[_-]process|glossary|genindex|py-modindex|license|upgrading)(?:[/_.-]|$|\d)",
    re.IGNORECASE,
)


_PHRASE_WORDS: Final = {
    tuple(phrase.split()): tuple(words.split())
    for phrase, _, words in (line.partition(":") for line in _PHRASES.strip().split("\n"))
}


def query_terms(query: str) -> list[str]:
    """Return the words of a query that are searched for, each once; stop words only if there is nothing else."""
    words = list(dict.fromkeys(word for word in _WORD.findall(query) if word.strip("_")))
    return [word for word in words if word.casefold() not in STOP_WORDS] or words


def phrase_words(query: str) -> tuple[str, ...]:
    """Return the words that documentation uses for the phrases of a question: `disable` for `turn off`."""
    words = tuple(word.casefold() for word in _WORD.findall(query))
    parts = (words[at : at + size] for size in (2, 3, 4, 5) for at in range(len(words) - size + 1))
    return tuple(dict.fromkeys(word for phrase in parts for word in _PHRASE_WORDS.get(phrase, ())))


def is_name(query: str) -> bool:
    """Return whether a query is the name of an object, such as `Boat.moor`, instead of words about a subject."""
    words = query.split()
    return len(words) == 1 or any(name_parts(word) and not word[:1].isdecimal() for word in words)


def weights(terms: Sequence[str]) -> list[float]:
    """Return the weight of each term. Words that identify no subject weigh less, unless there are no others."""
    found = [_WEAK_FACTOR if not _WEAK.isdisjoint(_base_forms(term)) else 1.0 for term in terms]
    return found if 1.0 in found else [1.0] * len(terms)


def synonyms(term: str) -> tuple[str, ...]:
    """Return the words that documentation may use for a term."""
    return next((_SYNONYMS[form] for form in _base_forms(term) if form in _SYNONYMS), ())


def _base_forms(word: str) -> list[str]:
    """Return a word and what its base form may be: `moored`, `moor`, `moore`, `moory`."""
    word = word.casefold()
    stems = [word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= _MIN_STEM_LENGTH]
    return [word, *(stem + more for stem in stems for more in ("", "e", "y"))]


def name_parts(name: str) -> list[str]:
    """Return the words of a camelCase or snake_case name; an empty list for a single word."""
    parts = _PART.findall(name)
    return parts if len(parts) > 1 else []


def unspaced_pairs(text: str) -> Iterator[str]:
    """Return each pair of neighbouring Chinese or Japanese characters, and the last character of each run."""
    for run in _UNSPACED.findall(text):
        yield from (run[at : at + 2] for at in range(len(run)))


def extra_words(text: str) -> str:
    """Return what a search finds in a string beside its words: parts of names, and pairs of characters."""
    names = dict.fromkeys(_NAME.findall(text))
    return " ".join((*(part for name in names for part in name_parts(name)), *unspaced_pairs(text)))


def match_expression(term: str, *, is_prefix: bool = False) -> str:
    """Return the FTS5 expression for one term of a query."""
    if is_prefix:
        return f'"{term}"*'
    pairs = list(unspaced_pairs(term))
    if pairs:
        return " AND ".join(f'"{pair}"' for pair in pairs[:-1]) or f'"{pairs[0]}"*'
    parts = name_parts(term)
    return f'"{term}" OR "{" ".join(parts)}"' if parts else f'"{term}"'


def without_link_targets(text: str) -> str:
    """Return Markdown without the addresses of its links."""
    return _LINK_TARGET.sub("]", text)


def object_name(heading: str) -> str:
    """Return a heading up to its parameters, type or value: `class harbour.Boat` of `class harbour.Boat(name)`."""
    return _BEHIND_NAME.split(heading, maxsplit=1)[0].strip() or heading


def is_signature(heading: str) -> bool:
    """Return whether a heading is the signature or the dotted name of an object."""
    return _SIGNATURE.match(heading.lstrip("`*")) is not None


def is_about_changes(terms: Iterable[str]) -> bool:
    """Return whether a query is about versions."""
    return not _ABOUT_CHANGES.isdisjoint(term.casefold() for term in terms)


def is_page_of_changes(url: str) -> bool:
    """Return whether the address is one of release notes, contributors or a glossary."""
    return _CHANGES_PAGE.search(url.partition("://")[2].partition("/")[2]) is not None


def heading_matcher(terms: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return a predicate for heading paths whose last heading, or the name of its signature, equals these terms.

    The names of classes may be those of the headings above.
    """
    wanted = [term.casefold() for term in terms]

    def matches(path: Sequence[str]) -> bool:
        heading = object_name(path[-1]).casefold() if path else ""
        if _WORD.findall(heading) == wanted:
            return True
        name = heading.split()[-1:]
        if _WORD.findall("".join(name))[-len(wanted) :] == wanted:
            return True
        # `Boat.moor` is the section `moor()` below that of the class.
        names = [object_name(above).casefold().split()[-1:] for above in path[-len(wanted) :]]
        return [_WORD.findall("".join(words))[-1:] for words in names] == [[term] for term in wanted]

    return matches


def heading_counter(terms: Sequence[str]) -> Callable[[str], tuple[float, float]]:
    """Return a function for headings: how many of its words a query has, and which share of them.

    Forms of a word are equal; a synonym counts half.
    """
    own = frozenset(form for term in terms for form in _base_forms(term))
    others = frozenset(form for term in terms for word in synonyms(term) for form in _base_forms(word))

    @cache  # sections of a page have the same headings above them
    def count(heading: str) -> tuple[float, float]:
        words = {word for word in _WORD.findall(object_name(heading).casefold()) if word not in STOP_WORDS}
        found = 0.0
        for word in words:
            forms = _base_forms(word)
            found += 0.5 if own.isdisjoint(forms) and not others.isdisjoint(forms) else 1.0 - own.isdisjoint(forms)
        return found, found / len(words) if words else 0.0

    return count


def names_object(anchor: str, terms: Sequence[str]) -> bool:
    """Return whether an anchor is the dotted name of the object with these names: `harbour.Boat.moor`."""
    return f".{anchor}".casefold().endswith("." + ".".join(terms).casefold()) and "." in anchor


__all__ = [
    "extra_words",
    "heading_counter",
    "heading_matcher",
    "is_about_changes",
    "is_name",
    "is_page_of_changes",
    "is_signature",
    "match_expression",
    "name_parts",
    "names_object",
    "object_name",
    "phrase_words",
    "query_terms",
    "synonyms",
    "unspaced_pairs",
    "weights",
    "without_link_targets",
]
