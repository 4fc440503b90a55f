"""A sequence whose keys and values are spread over several servers, which know nothing of each other."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from attend._fields import dtype_name, integer, items
from attend._keywords import check_names
from attend._process import Maker
from attend._shard_pages import Page, ShardPages, check_client
from attend._sharding import check_heads, check_options, check_pages, check_shape, merge, rows_of, sinks_of
from attend._task_pool import TaskPool
from attend.client import Client
from attend.errors import AttendError, FailedPrecondition
from attend.models import HeadsKeywords, OptionKeywords
from attend.results import Array, ShardedResult, ShardRange, StepResult

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike
    from typing_extensions import Unpack

PAGE_TOKENS = 2048
_ROWS = 2048  # the maximum number of rows of one step, so that no message grows with the page or the call
_ENVELOPE_BYTES = 4096  # of a step's message, besides its rows
_CONCURRENT_PAGES = 16  # of each server


class ShardedSession:
    """A session over several servers. Only one thread at a time may use it.

    Pages of `page_tokens` tokens are sequences of their own on the servers. A query goes to all pages at once, and the answers
    are merged in the order of positions: the bits of a result do not depend on which server holds which page. A step on a
    server has at most 2,048 rows, and as many as the server takes in a message, however many a call has.

    `shards` are clients of one server each, with the maximum number of tokens that the server takes, a multiple of `page_tokens`
    (None: no maximum). Pages go to the first server until its share is full, then to the next. The caller closes the clients.
    `heads`, `cache_dtype` and the options are those of Client.session(), without weights and similarity; positions are those
    of the whole sequence. Rows travel in the dtype of `heads`, if it has one. `timeout` (seconds) is the maximum wait for the answer to an action of a server.

    After a call that fails, the sequence has as many tokens as before. A server whose session breaks is lost, and its tokens are
    missing; so are those of a page from which a server does not remove the tokens of such a call. step() and append() then raise
    Unavailable, which names tokens and servers, until append_range() has brought those tokens to a server.
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
        cache_dtype: "DTypeLike" = "fp32",
        timeout: Optional[float] = None,
        **options: "Unpack[OptionKeywords]",
    ) -> None:
        check_names(options, OptionKeywords, "ShardedSession")
        check_heads(heads)
        check_pages("page_tokens", page_tokens, PAGE_TOKENS)
        check_options(options)
        self._maker = Maker(self, "session")
        self._heads = heads
        self._dtype = None if heads.get("dtype") is None else dtype_name(heads["dtype"], "heads.dtype")
        self._sinks = sinks_of(options.get("sinks"), heads)
        self._attends_to_later_keys = options.get("causal") is not None and not options["causal"]
        opening: Dict[str, Any] = {
            **options, "sinks": None, "return_log_sum_exp": True, "heads": heads, "cache_dtype": cache_dtype, "timeout": timeout
        }  # fmt: skip
        servers = items(shards, "shards")
        self._pages = ShardPages(servers, page_tokens, opening)
        self._fresh: List[Page] = []  # of an append_range() that has not ended
        self._is_closed = False
        self._is_half_done = False  # whether a call has not ended, nor been taken back
        self._tasks = TaskPool(_CONCURRENT_PAGES * len(servers))
        self._pages.connect(self._pages.servers[0])

    @property
    def length(self) -> int:
        """The number of tokens, including those that are missing."""
        return self._pages.length

    def step(self, query: "ArrayLike", key: "ArrayLike", value: "ArrayLike") -> ShardedResult:
        """Adds n tokens, and returns the attention of their rows to themselves and to all earlier tokens; with causal=False, of
        each row to all n.

        `query` is [n, H, D], `key` [n, Hkv, D], `value` [n, Hkv, Dv]. ValueError for other shapes, Unavailable while tokens are
        missing, ResourceExhausted when all shares are full; else the error of a server."""
        q, k, v = rows_of(query, "query", self._dtype), *self._keys(key, value)
        check_shape("query", q, (len(k), self._heads["num_heads"], self._heads["head_dim"]))
        with self._undone():
            self._pages.make_room(len(k))
            most = self._rows_at_a_time(q, k, v)
            has_all_keys = self._attends_to_later_keys and len(k) > most
            if has_all_keys:
                self._fill(dict(enumerate(self._pages.pages)), self.length, k, v)
            results = [self._ask(row, q[row : row + most], k, v, has_all_keys) for row in range(0, len(k), most)]
            self._pages.length += len(k)
        outputs, sums = zip(*results)
        return ShardedResult(np.concatenate(outputs), np.concatenate(sums, axis=1))

    def append(self, key: "ArrayLike", value: "ArrayLike") -> None:
        """Adds n tokens without a query: `key` is [n, Hkv, D], `value` [n, Hkv, Dv]. Errors are those of step()."""
        k, v = self._keys(key, value)
        with self._undone():
            self._pages.make_room(len(k))
            self._fill(dict(enumerate(self._pages.pages)), self.length, k, v)
            self._pages.length += len(k)

    def append_range(self, first: int, key: "ArrayLike", value: "ArrayLike", client: Client) -> None:
        """Sends missing tokens again, from position `first` on: those of whole missing pages.

        They go to the server of `client`, even if its share is full: a known server, one that was lost and is back (also as a new
        client of its address), or a new one.
        InvalidArgument unless exactly such tokens are given; else the server's error."""
        check_client(client)
        k, v = self._keys(key, value)
        numbers = self._pages.missing_pages(integer(first, "first"), len(k))
        server, session = self._pages.connect_client(client)
        with self._undone(needs_all=False):
            for _ in numbers:
                self._fresh.append(Page(server, session, session.fork()))
            fresh = dict(zip(numbers, self._fresh))
            self._fill(fresh, first, k, v)
            pages = [fresh.get(number, page) for number, page in enumerate(self._pages.pages)]
            self._fresh = []  # first: pages in both lists would be released
            self._pages.pages = pages

    def held(self) -> List[ShardRange]:
        """Returns where the tokens are, in the order of positions, without those that are missing."""
        return self._pages.ranges(missing=False)

    def missing(self) -> List[ShardRange]:
        """Returns the tokens of lost servers, in the order of positions."""
        return self._pages.ranges(missing=True)

    def failures(self) -> Dict[str, AttendError]:
        """Returns the error of each server that was lost or could not be reached, by the server's name."""
        return self._pages.failures()

    def close(self) -> None:
        """Ends the sessions. The clients stay open."""
        if self._is_closed or not self._maker.is_here:
            return
        self._tasks.run([server.session.close for server in self._pages.servers if server.session is not None])
        self._is_closed = True
        self._tasks.close()

    def __enter__(self) -> "ShardedSession":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        self.close()

    def _keys(self, key: "ArrayLike", value: "ArrayLike") -> Tuple[Array, Array]:
        self._maker.check()
        if self._is_closed:
            raise FailedPrecondition("the session was closed")
        k, v = rows_of(key, "key", self._dtype), rows_of(value, "value", self._dtype)
        kv_heads = self._heads.get("num_kv_heads") or self._heads["num_heads"]
        if k.ndim == 0 or len(k) == 0:
            raise ValueError(f"key: expected at least one token, found {list(k.shape)}")
        check_shape("key", k, (len(k), kv_heads, self._heads["head_dim"]))
        check_shape("value", v, (len(k), kv_heads, self._heads.get("value_head_dim") or self._heads["head_dim"]))
        return k, v

    def _rows_at_a_time(self, *tensors: Array) -> int:
        """Returns how many rows of these tensors a step has at most: so many that each server takes its message."""
        row_bytes = sum(rows[:1].size for rows in tensors) * (4 if self._dtype in (None, "FP32") else 2)
        limits = [server.session.max_message_bytes for server in self._pages.servers if server.session is not None]
        fitting = [(limit - _ENVELOPE_BYTES) // row_bytes for limit in limits if limit > 0]
        return max(1, min([_ROWS, *fitting]))

    def _ask(self, row: int, query: Array, key: Array, value: Array, has_all_keys: bool) -> ShardedResult:
        """Asks all pages with the rows of a call from `row` on, which `query` is, and adds the keys of those rows to the pages
        that they belong to, unless they have all keys of the call."""
        begin = self.length + row
        end = begin + len(query)

        def ask(page: Page, first: int) -> StepResult:
            start = max(first, begin)
            stop = start if has_all_keys else max(start, min(first + self._pages.page_tokens, end))
            rows = slice(start - self.length, stop - self.length)
            return page.session.step(
                query=query,
                key=key[rows],
                value=value[rows],
                query_offsets=[begin - first],
                sequence=page.sequence,
                dtype=self._dtype,
            )

        firsts = range(0, self.length + len(key) if has_all_keys else end, self._pages.page_tokens)
        answers = self._tasks.run([functools.partial(ask, page, first) for page, first in zip(self._pages.pages, firsts)])
        return merge([(step.output, step.log_sum_exp) for step in answers], self._sinks)

    def _fill(self, pages: Dict[int, Page], first: int, key: Array, value: Array) -> None:
        """Adds tokens to `pages`, by their numbers, from position `first` on, without a query."""
        no_query = np.empty((0, self._heads["num_heads"], self._heads["head_dim"]), key.dtype)
        end = first + len(key)
        most = self._rows_at_a_time(no_query, key, value)

        def fill(page: Page, start: int, stop: int) -> None:
            for at in range(start, stop, most):
                rows = slice(at - first, min(at + most, stop) - first)
                page.session.step(
                    query=no_query,
                    key=key[rows],
                    value=value[rows],
                    query_offsets=[0],
                    sequence=page.sequence,
                    dtype=self._dtype,
                )

        firsts = {number: number * self._pages.page_tokens for number in pages}
        self._tasks.run([
            functools.partial(fill, pages[number], max(first, start), min(end, start + self._pages.page_tokens))
            for number, start in firsts.items()
        ])  # fmt: skip

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
                self._pages.check_whole()
            raise
        self._is_half_done = False

    def _take_back(self) -> None:
        """Removes what a call added that did not end, on servers that are not lost."""
        self._tasks.forget()  # what an interrupt left would add tokens later
        self._pages.take_back(self._fresh)
        self._fresh = []
        self._is_half_done = False
