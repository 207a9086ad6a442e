"""Named timers: arm, disarm, due; compared with a plain dict."""

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jackstay.protocol._timers import Timers
from model.copies import copied_timers


def test_an_armed_name_is_due_once():
    timers = Timers()
    timers.arm("a", 5.0)
    assert timers.next_at == 5.0
    assert timers.due(4.999) == []
    assert timers.due(5.0) == ["a"]
    assert timers.due(5.0) == []
    assert timers.next_at is None
    assert len(timers) == 0


def test_arming_again_changes_the_time_in_both_directions():
    timers = Timers()
    timers.arm("a", 5.0)
    timers.arm("a", 9.0)
    assert timers.due(5.0) == []
    timers.arm("a", 7.0)
    assert timers.due(7.0) == ["a"]
    assert timers.due(100.0) == []


def test_a_name_armed_again_for_the_same_time_is_due_once():
    timers = Timers()
    timers.arm("a", 5.0)
    timers.arm("a", 9.0)
    timers.arm("a", 5.0)
    assert timers.due(10.0) == ["a"]
    assert timers.next_at is None


def test_disarming_twice_is_allowed():
    timers = Timers()
    timers.arm("a", 5.0)
    timers.disarm("a")
    timers.disarm("a")
    timers.disarm("never")
    assert "a" not in timers
    assert timers.at("a") is None
    assert timers.next_at is None
    assert timers.due(10.0) == []


def test_the_earliest_is_first_and_equal_times_are_in_the_order_armed():
    timers = Timers()
    for name, at in (("c", 3.0), ("a", 1.0), ("x", 2.0), ("b", 2.0), ("z", 2.0)):
        timers.arm(name, at)
    assert timers.due(3.0) == ["a", "x", "b", "z", "c"]


def test_names_are_never_compared():
    timers = Timers()
    timers.arm(1, 2.0)
    timers.arm("one", 2.0)
    timers.arm(("one", 1), 2.0)
    assert timers.due(2.0) == [1, "one", ("one", 1)]


def test_a_name_can_be_armed_again_when_due():
    timers = Timers()
    timers.arm("a", 1.0)
    assert timers.due(1.0) == ["a"]
    timers.arm("a", 1.0)
    assert timers.at("a") == 1.0
    assert timers.due(1.0) == ["a"]


def test_disarmed_entries_are_removed_from_the_heap():
    timers = Timers()
    timers.arm("stays", 1e9)
    for id in range(10_000):
        timers.arm(id, 30.0 + id)
        assert timers.next_at == 30.0 + id
        timers.disarm(id)
    assert len(timers) == 1
    assert len(timers._heap) < 100
    assert timers.next_at == 1e9


def test_what_is_disarmed_before_the_next_time_is_needed_never_enters_the_heap():
    timers = Timers()
    for id in range(100):
        timers.arm(id, 30.0)
        timers.disarm(id)
    assert timers._heap == []
    assert timers.next_at is None
    assert timers._heap == []


def test_repeated_arming_leaves_no_entries_behind():
    """Progress arms the deadline of a call for the same time if the hard deadline caps the soft one."""
    for later in (0.0, 1.0):
        timers = Timers()
        timers.arm("other", 1e9)
        for count in range(20_000):
            timers.arm("call", 100.0 + later * count)
            assert timers.next_at == 100.0 + later * count
            assert len(timers._heap) <= 64 + 2 * len(timers)
        assert timers.due(1e8) == ["call"]


def test_a_copy_is_independent():
    timers = Timers()
    timers.arm("a", 1.0)
    clone = copied_timers(timers)
    clone.disarm("a")
    clone.arm("b", 2.0)
    assert timers.armed == {"a": 1.0}
    assert clone.armed == {"b": 2.0}
    assert timers.due(5.0) == ["a"]
    assert clone.due(5.0) == ["b"]


def test_repr_shows_what_is_armed():
    timers = Timers()
    timers.arm("a", 1.0)
    assert repr(timers) == "<Timers {'a': 1.0}>"


class TimersComparedWithADict(RuleBasedStateMachine):
    """The timers behave as a plain dict of times."""

    names = st.integers(0, 20)
    times = st.floats(0, 100, allow_nan=False)

    @initialize()
    def begin(self):
        self.timers = Timers()
        self.model = {}
        self.now = 0.0

    @rule(name=names, at=times)
    def arm(self, name, at):
        self.timers.arm(name, at)
        self.model[name] = at
        assert len(self.timers._heap) <= 64 + 2 * len(self.model)

    @rule(name=names)
    def disarm(self, name):
        self.timers.disarm(name)
        self.model.pop(name, None)

    @rule(seconds=st.floats(0, 10))
    def pass_time(self, seconds):
        self.now += seconds
        due = self.timers.due(self.now)
        assert sorted(due) == sorted(name for name, at in self.model.items() if at <= self.now)
        assert [self.model[name] for name in due] == sorted(self.model[name] for name in due)
        for name in due:
            del self.model[name]

    @precondition(lambda self: self.model)
    @rule()
    def continue_with_a_copy(self):
        self.timers = copied_timers(self.timers)

    @invariant()
    def agrees(self):
        assert self.timers.armed == self.model
        assert len(self.timers) == len(self.model)
        earliest = min(self.model.values(), default=None)
        assert earliest is None or self.timers.earliest <= earliest
        assert self.timers.next_at == earliest
        assert self.timers.earliest == (math.inf if earliest is None else earliest)


TestTimersComparedWithADict = TimersComparedWithADict.TestCase
