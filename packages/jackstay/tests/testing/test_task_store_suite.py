"""The suite for stores of tasks passes with the memory of one process, and finds faults."""

import pytest

from jackstay.server import MemoryTaskStore, TaskRecord, TaskStore
from jackstay.testing.task_store_suite import RECORD, TaskStoreSuite


class TestMemoryTaskStore(TaskStoreSuite):
    def make(self) -> tuple[TaskStore, TaskStore]:
        store = MemoryTaskStore()
        return store, store


class Careless(MemoryTaskStore):
    """Replaces whatever is stored."""

    async def replace(self, record: TaskRecord) -> bool:
        self._records[record.id] = record
        return True


class SuiteOfCareless(TaskStoreSuite):
    def make(self) -> tuple[TaskStore, TaskStore]:
        store = Careless()
        return store, store


def test_the_suite_finds_a_store_that_loses_changes() -> None:
    with pytest.raises(AssertionError):
        SuiteOfCareless().test_only_the_next_revision_replaces_a_task()
    with pytest.raises(NotImplementedError):
        TaskStoreSuite().test_a_store_can_be_opened_again()


async def test_the_repr_has_the_number_of_tasks() -> None:
    store = MemoryTaskStore()
    await store.create(RECORD, 1)
    assert repr(store) == "<MemoryTaskStore of 1 tasks>"
