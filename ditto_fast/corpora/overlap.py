"""Reading and writing beside the computation: one item ahead, one behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class ReadAhead(Generic[T]):
    """An iterator whose next item is made in a thread while the last one is used.

    Args:
        items: Where they come from; its errors are raised where the item would come.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._queue: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(1)
        self._stopped = False
        # a daemon: an interrupt must not wait for a pipe that sends nothing
        threading.Thread(target=self._read, args=(items,), daemon=True).start()

    def _read(self, items: Iterator[T]) -> None:
        error: BaseException = StopIteration()
        try:
            for item in items:
                self._queue.put((item, None))
                if self._stopped:
                    return
        except BaseException as raised:
            error = raised
        self._queue.put((None, error))

    def __iter__(self) -> Iterator[T]:
        while True:
            item, error = self._queue.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]

    def __enter__(self) -> ReadAhead[T]:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopped = True
        while not self._queue.empty():
            self._queue.get_nowait()


class WriteBehind:
    """Runs one task in a thread while the next is prepared; an error of a task is raised at the next call."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None

    def submit(self, task: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Waits for the task before, and starts this one."""
        self.wait()
        self._pending = self._executor.submit(task, *args, **kwargs)

    def wait(self) -> None:
        """Waits until nothing is under way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> WriteBehind:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._executor.shutdown()
