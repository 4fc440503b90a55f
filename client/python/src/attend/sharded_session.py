"""A sequence whose keys and values are spread over several servers, which know nothing of each other."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

import numpy as np

from attend._dlpack import as_array
from attend._keywords import check_names
from attend.client import Client
from attend.errors import AttendError, InvalidArgument, ResourceExhausted, Unavailable
from attend.models import HeadsKeywords, OptionKeywords
from attend.results import Array, StepResult
from attend.session import Session

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

PAGE_TOKENS = 2048
_CONCURRENT_PAGES = 16  # of each server


@dataclasses.dataclass(frozen=True)
class ShardRange:
    """Tokens [first, first + count) of the sequence, and the server that holds or held them."""

    first: int
    count: int
    server: str


class ShardedResult(NamedTuple):
    output: Array  # float32 [n, H, Dv]
    log_sum_exp: Array  # float32 [H, n]


@dataclasses.dataclass
class _Server:
    """`client` is the caller's; `error` is what the session was lost by."""

    client: Client
    max_tokens: int
    name: str
    session: Optional[Session] = None
    error: Optional[AttendError] = None


@dataclasses.dataclass
class _Page:
    server: _Server
    sequence: int
    tokens: int = 0
    is_lost: bool = False


class ShardedSession:
    """Pages of `page_tokens` tokens are sequences of their own on the servers; a query goes to all of them at once, and the
    answers are merged in the order of positions. So the bits of a result do not depend on which server holds which page.

    `shards` are clients of one server each, with the tokens that it takes: whole pages, or None for all that come. They stay the
    caller's to close. `options` are those of Client.session(), without weights and similarity; positions are those of the whole
    sequence. One thread's.

    A call that fails leaves the sequence as it was. A server whose session breaks is lost with its tokens: step() and append()
    raise Unavailable, which names both, until append_range() has brought them to a server.
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
        _check_pages("page_tokens", page_tokens, PAGE_TOKENS)
        _check_options(options, heads)
        self._page_tokens = page_tokens
        self._heads = heads
        self._sinks = options.get("sinks")
        self._opening: Dict[str, Any] = {
            **options, "sinks": None, "return_log_sum_exp": True, "heads": heads, "cache_dtype": cache_dtype, "timeout": timeout
        }  # fmt: skip
        self._servers: List[_Server] = []
        self._pages: List[_Page] = []
        self._pool = concurrent.futures.ThreadPoolExecutor(_CONCURRENT_PAGES * max(1, len(shards)))
        self.length = 0
        """The number of tokens."""
        for client, max_tokens in shards:
            self._add_server(client, max_tokens)
        if not self._servers:
            raise ValueError("shards: expected at least one, found none")
        self._connect(self._servers[0])

    def step(self, query: "ArrayLike", key: "ArrayLike", value: "ArrayLike") -> ShardedResult:
        """Adds n tokens and attends with their rows, which also see all earlier tokens: query [n, H, D], key [n, Hkv, D], value
        [n, Hkv, Dv]."""
        q, k, v = as_array(query, "query"), *self._keys(key, value)
        _check_shape("query", q, (len(k), self._heads["num_heads"], self._heads["head_dim"]))
        self._make_room(len(k))
        answers = self._run({page: self._part(page, q, k, v) for page in range(len(self._pages))})
        result = _merge([(step.output, step.log_sum_exp) for step in answers], self._sinks)
        self._grow(len(k))
        return result

    def append(self, key: "ArrayLike", value: "ArrayLike") -> None:
        """Adds n tokens that nobody asks."""
        k, v = self._keys(key, value)
        self._make_room(len(k))
        no_query = np.empty((0, self._heads["num_heads"], self._heads["head_dim"]), k.dtype)
        first_page = self.length // self._page_tokens
        self._run({page: self._part(page, no_query, k, v) for page in range(first_page, len(self._pages))})
        self._grow(len(k))

    def append_range(self, first: int, key: "ArrayLike", value: "ArrayLike", client: Client) -> None:
        """Brings back lost tokens from `first` on, those of whole lost pages, to the server of `client`, whatever its share: one
        that is known, also a lost one that is there again, or one more."""
        k, v = self._keys(key, value)
        numbers = self._lost_pages(first, len(k))
        server = next((one for one in self._servers if one.client is client), None) or self._add_server(client, None)
        session = self._connect(server)
        no_query = np.empty((0, self._heads["num_heads"], self._heads["head_dim"]), k.dtype)
        fresh: Dict[int, _Page] = {}
        try:
            for number in numbers:
                fresh[number] = _Page(server, session.fork(), self._pages[number].tokens)
                rows = slice(number * self._page_tokens - first, number * self._page_tokens - first + fresh[number].tokens)
                session.step(query=no_query, key=k[rows], value=v[rows], query_offsets=[0], sequence=fresh[number].sequence)
        except AttendError as error:
            for page in fresh.values():
                self._cut(page, 0)
            raise self._explained(error) from None
        for number, page in fresh.items():
            self._pages[number] = page

    def held(self) -> List[ShardRange]:
        """Where the tokens are, in the order of positions; lost ones are left out."""
        return self._ranges(lost=False)

    def missing(self) -> List[ShardRange]:
        """The lost tokens, in the order of positions."""
        return self._ranges(lost=True)

    def close(self) -> None:
        """Ends the sessions; the clients stay open."""
        for server in self._servers:
            if server.session is not None:
                server.session.close()
        self._pool.shutdown()

    def __enter__(self) -> "ShardedSession":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    def _add_server(self, client: Client, max_tokens: Optional[int]) -> _Server:
        if max_tokens is not None:
            _check_pages("max_tokens", max_tokens, self._page_tokens)
        self._servers.append(_Server(client, max_tokens or 0, client.name))
        return self._servers[-1]

    def _connect(self, server: _Server) -> Session:
        if server.session is None or server.error is not None:
            server.session = server.client.session(**self._opening)
            server.error = None
        return server.session

    def _keys(self, key: "ArrayLike", value: "ArrayLike") -> Tuple[Array, Array]:
        k, v = as_array(key, "key"), as_array(value, "value")
        kv_heads = self._heads.get("num_kv_heads") or self._heads["num_heads"]
        if len(k) == 0:
            raise ValueError("key: expected at least one token, found none")
        _check_shape("key", k, (len(k), kv_heads, self._heads["head_dim"]))
        _check_shape("value", v, (len(k), kv_heads, self._heads.get("value_head_dim") or self._heads["head_dim"]))
        return k, v

    def _make_room(self, tokens: int) -> None:
        """Makes the pages that hold the next tokens. Unavailable when tokens are missing."""
        if self.missing():
            raise self._explained(Unavailable("tokens are missing"))
        while len(self._pages) * self._page_tokens < self.length + tokens:
            server = self._next_server()
            try:
                self._pages.append(_Page(server, self._connect(server).fork()))
            except AttendError as error:
                raise self._explained(error) from None

    def _next_server(self) -> _Server:
        """The first that is there and whose share is not full."""
        for server in self._servers:
            held = self._page_tokens * sum(page.server is server and not page.is_lost for page in self._pages)
            if server.error is None and (server.max_tokens == 0 or held < server.max_tokens):
                return server
        where = len(self._pages) * self._page_tokens
        raise ResourceExhausted(
            f"shards: expected room for token {where}, found all {len(self._servers)} servers full or lost"
        )

    def _part(self, number: int, query: Array, key: Array, value: Array) -> Callable[[], StepResult]:
        """Asks a page with all rows, which begin at `length`, and adds those of the keys that are its."""
        page, first = self._pages[number], number * self._page_tokens
        begin, end = max(first, self.length), max(first, self.length, min(first + self._page_tokens, self.length + len(key)))
        rows = slice(begin - self.length, end - self.length) if end > begin else slice(0, 0)
        offsets = [self.length - first]

        def ask() -> StepResult:
            assert page.server.session is not None
            return page.server.session.step(
                query=query, key=key[rows], value=value[rows], query_offsets=offsets, sequence=page.sequence
            )

        return ask

    def _run(self, parts: Dict[int, Callable[[], StepResult]]) -> List[StepResult]:
        """All at once; on an error no page has grown."""
        futures = [self._pool.submit(part) for part in parts.values()]
        concurrent.futures.wait(futures)
        error = next((future.exception() for future in futures if future.exception() is not None), None)
        if error is None:
            return [future.result() for future in futures]
        for number in parts:
            if self._pages[number].tokens < self._page_tokens:
                self._cut(self._pages[number], self._pages[number].tokens)
        raise self._explained(error) if isinstance(error, AttendError) else error

    def _cut(self, page: _Page, length: int) -> None:
        """Takes back what a page has beyond `length`; a server that cannot do that is lost, or has not added anything."""
        try:
            assert page.server.session is not None
            page.server.session.truncate(length, sequence=page.sequence)
        except AttendError:
            pass

    def _explained(self, error: AttendError) -> AttendError:
        """Finds out what was lost, and says it; else returns `error`."""
        for server in self._servers:
            if server.session is not None:
                server.error = server.error or server.session.broken
        for page in self._pages:
            page.is_lost = page.is_lost or page.server.error is not None
        # Of a page without tokens nothing is lost: it is made anew, and those behind it.
        gone = [number for number, page in enumerate(self._pages) if page.is_lost and page.tokens == 0]
        if gone:
            del self._pages[gone[0] :]
        lost = [f"tokens {one.first} to {one.first + one.count - 1} of server {one.server}" for one in self.missing()]
        return Unavailable(f"lost: {'; '.join(lost)}; append_range brings them back") if lost else error

    def _grow(self, tokens: int) -> None:
        self.length += tokens
        for number, page in enumerate(self._pages):
            page.tokens = min(self._page_tokens, self.length - number * self._page_tokens)

    def _lost_pages(self, first: int, count: int) -> List[int]:
        numbers: List[int] = []
        end, number = first, first // self._page_tokens
        is_start = first >= 0 and first % self._page_tokens == 0
        while is_start and number < len(self._pages) and self._pages[number].is_lost and end < first + count:
            numbers.append(number)
            end += self._pages[number].tokens
            number += 1
        if end != first + count:
            raise InvalidArgument(
                f"range: expected the tokens of whole pages of {self._page_tokens} that are lost (missing), found {count} "
                f"tokens from {first} on"
            )
        return numbers

    def _ranges(self, lost: bool) -> List[ShardRange]:
        ranges: List[ShardRange] = []
        for number, page in enumerate(self._pages):
            if page.is_lost != lost or page.tokens == 0:
                continue
            last, first = ranges[-1] if ranges else None, number * self._page_tokens
            if last and last.server == page.server.name and last.first + last.count == first:
                ranges[-1] = dataclasses.replace(last, count=last.count + page.tokens)
            else:
                ranges.append(ShardRange(first, page.tokens, page.server.name))
        return ranges


def _merge(parts: Sequence[Tuple[Any, Any]], sinks: Optional[Sequence[float]]) -> ShardedResult:
    """Weights outputs [n, H, Dv] by exp(log_sum_exp [H, n]), in double precision and the order of the parts."""
    sums = [np.asarray(sum_, np.float64) for _, sum_ in parts]
    most = np.maximum.reduce(sums)
    most = np.where(np.isneginf(most), 0.0, most)
    total = np.zeros_like(most)
    output = np.zeros(parts[0][0].shape, np.float64)
    for (rows, _), sum_ in zip(parts, sums):
        share = np.exp(sum_ - most)
        total += share
        output += share.T[:, :, None] * np.asarray(rows, np.float64)
    log_sum_exp = np.full_like(total, -np.inf)
    np.log(total, out=log_sum_exp, where=total > 0)
    denominator = total if sinks is None else total + np.exp(np.asarray(sinks, np.float64)[:, None] - most)
    output /= np.where(denominator > 0, denominator, 1.0).T[:, :, None]
    return ShardedResult(output.astype(np.float32), (log_sum_exp + most).astype(np.float32))


def _check_pages(name: str, tokens: int, page_tokens: int) -> None:
    if tokens < page_tokens or tokens % page_tokens != 0:
        raise ValueError(f"{name}: expected a multiple of {page_tokens} from {page_tokens} on, found {tokens}")


def _check_options(options: Mapping[str, Any], heads: HeadsKeywords) -> None:
    for name in ("return_weights", "weights_top_k"):
        if options.get(name):
            raise ValueError(f"{name}: expected none of a sequence on several servers, found {options.get(name)}")
    if options.get("similarity", "dot_product") != "dot_product":
        raise ValueError(f"similarity: expected dot_product, found {options.get('similarity')}")
    sinks = options.get("sinks")
    if sinks is not None and len(sinks) != heads["num_heads"]:
        raise ValueError(f"sinks: expected one for each of {heads['num_heads']} heads, found {len(sinks)}")


def _check_shape(name: str, rows: Array, expected: Tuple[int, ...]) -> None:
    if rows.shape != expected:
        raise ValueError(f"{name}: expected {list(expected)}, found {list(rows.shape)}")
