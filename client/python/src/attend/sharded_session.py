"""A sequence whose keys and values are spread over several servers, which know nothing of each other."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np

from attend._fields import integer
from attend._keywords import check_names
from attend._process import Maker
from attend._sharding import check_options, check_pages, check_shape, merge, rows_of, sinks_of
from attend.client import Client
from attend.errors import AttendError, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable
from attend.models import HeadsKeywords, OptionKeywords
from attend.results import Array, ShardedResult, ShardRange, StepResult
from attend.session import Session

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

T = TypeVar("T")
PAGE_TOKENS = 2048
_ROWS = 2048  # the maximum number of rows of one step, so that no message grows with the page or the call
_CONCURRENT_PAGES = 16  # of each server


@dataclasses.dataclass
class _Server:
    client: Client  # the caller's
    max_tokens: int
    session: Optional[Session] = None
    failure: Optional[AttendError] = None  # to open a session

    @property
    def error(self) -> Optional[AttendError]:
        """Why the server takes no pages: its session could not be opened, or broke."""
        return self.failure or (self.session.broken if self.session is not None else None)


@dataclasses.dataclass
class _Page:
    server: _Server
    session: Session  # of the server when the page was made; a server that was lost and is back has another
    sequence: int

    @property
    def is_missing(self) -> bool:
        return self.session.broken is not None


class ShardedSession:
    """A session over several servers. Only one thread at a time may use it.

    Pages of `page_tokens` tokens are sequences of their own on the servers. A query goes to all pages at once, and the answers
    are merged in the order of positions: the bits of a result do not depend on which server holds which page. A step on a
    server has at most 2,048 rows, however many a call has.

    `shards` are clients of one server each, with the maximum number of tokens that the server takes, a multiple of `page_tokens`
    (None: no maximum). Pages go to the first server until its share is full, then to the next. The caller closes the clients.
    `heads`, `cache_dtype` and the options are those of Client.session(), without weights and similarity; positions are those
    of the whole sequence. `timeout` (seconds) is the maximum wait for the answer to an action of a server.

    After a call that fails, the sequence has as many tokens as before. A server whose session breaks is lost, and its tokens are
    missing: step() and append() raise Unavailable, which names both, until append_range() has brought those tokens to a server.
    A server that cannot be reached when its first page is due is passed over. failures() names both kinds of servers; they are
    tried again when no other server has room for a page. A call that is interrupted (Ctrl-C) first waits for the answers to what
    it sent; interrupted again, it leaves that to the next call.
    """

    def __init__(
        self,
        shards: Sequence[Tuple[Client, Optional[int]]],
        heads: HeadsKeywords,
        *,
        page_tokens: int = PAGE_TOKENS,
        cache_dtype: str = "fp32",
        timeout: Optional[float] = None,
        **options: "Unpack[OptionKeywords]",
    ) -> None:
        check_names(options, OptionKeywords, "ShardedSession")
        check_pages("page_tokens", page_tokens, PAGE_TOKENS)
        check_options(options)
        self._maker = Maker(self, "session")
        self._page_tokens = page_tokens
        self._heads = heads
        self._sinks = sinks_of(options.get("sinks"), heads)
        self._sees_later_keys = options.get("causal") is not None and not options["causal"]
        self._opening: Dict[str, Any] = {
            **options, "sinks": None, "return_log_sum_exp": True, "heads": heads, "cache_dtype": cache_dtype, "timeout": timeout
        }  # fmt: skip
        self._servers: List[_Server] = []
        self._pages: List[_Page] = []
        self._fresh: List[_Page] = []  # of an append_range() that has not ended
        self._is_closed = False
        self._is_half_done = False  # whether a call has not ended, nor been taken back
        self._pool = concurrent.futures.ThreadPoolExecutor(_CONCURRENT_PAGES * max(1, len(shards)))
        self._turn = threading.Condition()  # of the next two
        self._attempt = 0  # tasks of earlier ones do not begin any more
        self._running = 0  # the number of tasks
        self.length = 0
        """The number of tokens, including those that are missing."""
        for shard in shards:
            if not isinstance(shard, (tuple, list)) or len(shard) != 2:
                raise TypeError(f"shards: expected pairs of an attend.Client and its maximum number of tokens, found {shard!r}")
            _check_client(shard[0])
            self._add_server(*shard)
        if not self._servers:
            raise ValueError("shards: expected at least one, found none")
        self._connect(self._servers[0])

    def step(self, query: "ArrayLike", key: "ArrayLike", value: "ArrayLike") -> ShardedResult:
        """Adds n tokens, and returns the attention of their rows to themselves and to all earlier tokens; with causal=False, of
        each row to all n.

        `query` is [n, H, D], `key` [n, Hkv, D], `value` [n, Hkv, Dv]. ValueError for other shapes, Unavailable while tokens are
        missing, ResourceExhausted when all shares are full; else the error of a server."""
        q, k, v = rows_of(query, "query"), *self._keys(key, value)
        check_shape("query", q, (len(k), self._heads["num_heads"], self._heads["head_dim"]))
        with self._undone():
            self._make_room(len(k))
            has_all_keys = self._sees_later_keys and len(k) > _ROWS
            if has_all_keys:
                self._fill(dict(enumerate(self._pages)), self.length, k, v)
            results = [self._ask(row, q[row : row + _ROWS], k, v, has_all_keys) for row in range(0, len(k), _ROWS)]
            self.length += len(k)
        outputs, sums = zip(*results)
        return ShardedResult(np.concatenate(outputs), np.concatenate(sums, axis=1))

    def append(self, key: "ArrayLike", value: "ArrayLike") -> None:
        """Adds n tokens without a query: `key` is [n, Hkv, D], `value` [n, Hkv, Dv]. Errors are those of step()."""
        k, v = self._keys(key, value)
        with self._undone():
            self._make_room(len(k))
            self._fill(dict(enumerate(self._pages)), self.length, k, v)
            self.length += len(k)

    def append_range(self, first: int, key: "ArrayLike", value: "ArrayLike", client: Client) -> None:
        """Sends missing tokens again, from position `first` on: those of whole missing pages.

        They go to the server of `client`, even if its share is full: a known server, one that was lost and is back (also as a new
        client of its address), or a new one.
        InvalidArgument unless exactly such tokens are given; else the server's error."""
        _check_client(client)
        k, v = self._keys(key, value)
        numbers = self._missing_pages(integer(first, "first"), len(k))
        server = self._server_of(client)
        session = self._connect(server)
        with self._undone(needs_all=False):
            for _ in numbers:
                self._fresh.append(_Page(server, session, session.fork()))
            fresh = dict(zip(numbers, self._fresh))
            self._fill(fresh, first, k, v)
            pages = [fresh.get(number, page) for number, page in enumerate(self._pages)]
            self._fresh = []  # first: pages in both lists would be released
            self._pages = pages

    def held(self) -> List[ShardRange]:
        """Returns where the tokens are, in the order of positions, without those that are missing."""
        return self._ranges(missing=False)

    def missing(self) -> List[ShardRange]:
        """Returns the tokens of lost servers, in the order of positions."""
        return self._ranges(missing=True)

    def failures(self) -> Dict[str, AttendError]:
        """Returns the error of each server that was lost or could not be reached, by the server's name."""
        return {server.client.name: server.error for server in self._servers if server.error is not None}

    def close(self) -> None:
        """Ends the sessions. The clients stay open."""
        if self._is_closed or not self._maker.is_here:
            return
        self._run([server.session.close for server in self._servers if server.session is not None])
        self._is_closed = True
        self._pool.shutdown()

    def __enter__(self) -> "ShardedSession":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        self.close()

    def _server_of(self, client: Client) -> _Server:
        """Returns the server of the client, a lost one of the same name, which the client then calls, or a new one."""
        for server in self._servers:
            if server.client is client:
                return server
        for server in self._servers:
            if server.error is not None and server.client.name == client.name:
                server.client = client
                return server
        return self._add_server(client, None)

    def _add_server(self, client: Client, max_tokens: Optional[int]) -> _Server:
        if max_tokens is not None:
            check_pages("max_tokens", max_tokens, self._page_tokens)
        self._servers.append(_Server(client, max_tokens or 0))
        return self._servers[-1]

    def _connect(self, server: _Server) -> Session:
        """Opens a session unless an unbroken one is open."""
        if server.session is None or server.error is not None:
            try:
                server.session = server.client.session(**self._opening)
                server.failure = None
            except AttendError as error:
                server.failure = copy.copy(error)  # the traceback of what is raised keeps the caller's arrays
                raise
        return server.session

    def _keys(self, key: "ArrayLike", value: "ArrayLike") -> Tuple[Array, Array]:
        self._maker.check()
        if self._is_closed:
            raise FailedPrecondition("the session was closed")
        k, v = rows_of(key, "key"), rows_of(value, "value")
        kv_heads = self._heads.get("num_kv_heads") or self._heads["num_heads"]
        if k.ndim == 0 or len(k) == 0:
            raise ValueError(f"key: expected at least one token, found {list(k.shape)}")
        check_shape("key", k, (len(k), kv_heads, self._heads["head_dim"]))
        check_shape("value", v, (len(k), kv_heads, self._heads.get("value_head_dim") or self._heads["head_dim"]))
        return k, v

    def _make_room(self, tokens: int) -> None:
        """Makes the pages of the next tokens. Unavailable when tokens are missing."""
        self._check_whole()
        while len(self._pages) * self._page_tokens < self.length + tokens:
            self._pages.append(self._new_page())

    def _new_page(self) -> _Page:
        """Makes a page on the first server that can be reached and whose share is not full.

        Servers with an error come last: they may be back."""
        for server in sorted(self._servers, key=lambda one: one.error is not None):
            held = self._page_tokens * sum(page.server is server and not page.is_missing for page in self._pages)
            if 0 < server.max_tokens <= held:
                continue
            try:
                session = self._connect(server)
                return _Page(server, session, session.fork())
            except AttendError:
                if server.error is None or held > 0:
                    raise
        where = len(self._pages) * self._page_tokens
        failures = "".join(f"; {name}: {error.message}" for name, error in self.failures().items())
        raise ResourceExhausted(
            f"shards: expected room for token {where}, found all {len(self._servers)} servers full or lost{failures}"
        )

    def _ask(self, row: int, query: Array, key: Array, value: Array, has_all_keys: bool) -> ShardedResult:
        """Asks all pages with the rows of a call from `row` on, which `query` is, and adds the keys of those rows to the pages
        that they belong to, unless they have all keys of the call."""
        begin = self.length + row
        end = begin + len(query)

        def ask(page: _Page, first: int) -> StepResult:
            start = max(first, begin)
            stop = start if has_all_keys else max(start, min(first + self._page_tokens, end))
            rows = slice(start - self.length, stop - self.length)
            return page.session.step(
                query=query, key=key[rows], value=value[rows], query_offsets=[begin - first], sequence=page.sequence
            )

        firsts = range(0, self.length + len(key) if has_all_keys else end, self._page_tokens)
        answers = self._run([functools.partial(ask, page, first) for page, first in zip(self._pages, firsts)])
        return merge([(step.output, step.log_sum_exp) for step in answers], self._sinks)

    def _fill(self, pages: Dict[int, _Page], first: int, key: Array, value: Array) -> None:
        """Adds tokens to `pages`, by their numbers, from position `first` on, without a query."""
        no_query = np.empty((0, self._heads["num_heads"], self._heads["head_dim"]), key.dtype)
        end = first + len(key)

        def fill(page: _Page, start: int, stop: int) -> None:
            for at in range(start, stop, _ROWS):
                rows = slice(at - first, min(at + _ROWS, stop) - first)
                page.session.step(
                    query=no_query, key=key[rows], value=value[rows], query_offsets=[0], sequence=page.sequence
                )

        firsts = {number: number * self._page_tokens for number in pages}
        self._run([
            functools.partial(fill, pages[number], max(first, start), min(end, start + self._page_tokens))
            for number, start in firsts.items()
        ])  # fmt: skip

    def _run(self, tasks: Sequence[Callable[[], T]]) -> List[T]:
        """Runs all tasks at once. Raises the first error once all have ended."""
        futures = [self._pool.submit(self._begin, self._attempt, task) for task in tasks]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def _begin(self, attempt: int, task: Callable[[], Any]) -> Any:
        with self._turn:
            if attempt != self._attempt:
                raise concurrent.futures.CancelledError
            self._running += 1
        try:
            return task()
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    @contextlib.contextmanager
    def _undone(self, needs_all: bool = True) -> Iterator[None]:
        """On an error or an interrupt, takes back what the call added. With `needs_all`, raises Unavailable in place of an error if
        tokens are missing."""
        if self._is_half_done:
            self._take_back()
        self._is_half_done = True
        try:
            yield
        except BaseException as error:
            self._take_back()
            if needs_all and isinstance(error, Exception):
                self._check_whole()
            raise
        self._is_half_done = False

    def _take_back(self) -> None:
        """Removes what a call added that did not end, on servers that are not lost."""
        with self._turn:  # what an interrupt left would add tokens later
            self._attempt += 1
            self._turn.wait_for(lambda: self._running == 0)
        # A server that cannot do this is lost, or has not added anything.
        for page in self._fresh:
            _ignoring_errors(page.session.release, page.sequence)
        self._fresh = []
        for number, page in enumerate(self._pages):
            tokens = self._tokens_of(number)
            if tokens == 0:
                _ignoring_errors(page.session.release, page.sequence)
            elif tokens < self._page_tokens and not page.is_missing:
                _ignoring_errors(page.session.truncate, tokens, page.sequence)
        self._pages = [page for number, page in enumerate(self._pages) if self._tokens_of(number) > 0]
        self._is_half_done = False

    def _check_whole(self) -> None:
        missing = [f"tokens {one.first} to {one.first + one.count - 1} of server {one.server}" for one in self.missing()]
        if missing:
            raise Unavailable(f"lost: {'; '.join(missing)}; append_range brings them back")

    def _tokens_of(self, number: int) -> int:
        """Returns the number of tokens of a page: 0 for one that the present call has made."""
        return max(0, min(self._page_tokens, self.length - number * self._page_tokens))

    def _missing_pages(self, first: int, count: int) -> List[int]:
        numbers: List[int] = []
        end, number = first, first // self._page_tokens
        is_start = first >= 0 and first % self._page_tokens == 0
        while is_start and number < len(self._pages) and self._pages[number].is_missing and end < first + count:
            numbers.append(number)
            end += self._tokens_of(number)
            number += 1
        if end != first + count:
            raise InvalidArgument(
                f"range: expected the tokens of whole pages of {self._page_tokens} that are lost (missing), found {count} "
                f"tokens from {first} on"
            )
        return numbers

    def _ranges(self, missing: bool) -> List[ShardRange]:
        ranges: List[ShardRange] = []
        for number, page in enumerate(self._pages):
            count = self._tokens_of(number)
            if page.is_missing != missing or count == 0:
                continue
            last, first, server = ranges[-1] if ranges else None, number * self._page_tokens, page.server.client.name
            if last and last.server == server and last.first + last.count == first:
                ranges[-1] = dataclasses.replace(last, count=last.count + count)
            else:
                ranges.append(ShardRange(first, count, server))
        return ranges


def _check_client(client: Any) -> None:
    if not isinstance(client, Client):
        raise TypeError(f"client: expected an attend.Client, found {type(client).__name__}")


def _ignoring_errors(act: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.suppress(AttendError):
        act(*arguments)
