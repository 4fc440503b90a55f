"""Which server of a ShardedSession holds which page of the sequence."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from attend._sharding import check_pages
from attend.client import Client
from attend.errors import AttendError, InvalidArgument, ResourceExhausted, Unavailable
from attend.results import ShardRange
from attend.session import Session


@dataclasses.dataclass
class Server:
    """A server, its share, and its session."""

    client: Client  # the caller's
    max_tokens: int
    session: Optional[Session] = None
    failure: Optional[AttendError] = None  # to open a session

    @property
    def error(self) -> Optional[AttendError]:
        """Why the server takes no pages: its session could not be opened, or broke."""
        return self.failure or (self.session.broken if self.session is not None else None)


@dataclasses.dataclass
class Page:
    """A sequence of the session of one server."""

    server: Server
    session: Session  # of the server when the page was made; a server that was lost and is back has another
    sequence: int
    lost: bool = False  # whether the server kept tokens that it should have removed

    @property
    def is_missing(self) -> bool:
        return self.lost or self.session.broken is not None


class ShardPages:
    """The pages of a sequence, and the servers. The tokens of page i begin at i * page_tokens; all pages but the last are full.
    Between calls of the session every page has tokens. Only one thread at a time may use it.

    `shards` are those of ShardedSession, `opening` the arguments of Client.session() for each of them."""

    def __init__(self, shards: Sequence[Tuple[Client, Optional[int]]], page_tokens: int, opening: Dict[str, Any]) -> None:
        self.page_tokens = page_tokens
        self.servers: List[Server] = []
        self.pages: List[Page] = []
        self.length = 0
        self._opening = opening
        for shard in shards:
            if not isinstance(shard, (tuple, list)) or len(shard) != 2:
                raise TypeError(f"shards: expected pairs of an attend.Client and its maximum number of tokens, found {shard!r}")
            check_client(shard[0])
            self.add_server(*shard)
        if not self.servers:
            raise ValueError("shards: expected at least one, found none")

    def failures(self) -> Dict[str, AttendError]:
        """Returns the error of each server that has one, by its name."""
        return {server.client.name: server.error for server in self.servers if server.error is not None}

    def connect_client(self, client: Client) -> Tuple[Server, Session]:
        """Connects the server of the client, a lost one of the same name, which the client then calls, or a new one.

        A client that cannot connect takes the place of no other, and adds no server."""
        known = [one for one in self.servers if one.client is client]
        lost = [one for one in self.servers if one.error is not None and one.client.name == client.name]
        server = (known or lost or [Server(client, 0)])[0]
        before, server.client = server.client, client
        try:
            session = self.connect(server)
        except BaseException:
            server.client = before
            raise
        if not known and not lost:
            self.servers.append(server)
        return server, session

    def add_server(self, client: Client, max_tokens: Optional[int]) -> None:
        if max_tokens is not None:
            check_pages("max_tokens", max_tokens, self.page_tokens)
        self.servers.append(Server(client, max_tokens or 0))

    def connect(self, server: Server) -> Session:
        """Opens a session unless an unbroken one is open."""
        if server.session is None or server.error is not None:
            try:
                server.session = server.client.session(**self._opening)
                server.failure = None
            except AttendError as error:
                server.failure = copy.copy(error)  # the traceback of what is raised keeps the caller's arrays
                raise
        return server.session

    def make_room(self, tokens: int) -> None:
        """Makes the pages of the next tokens. Unavailable when tokens are missing."""
        self.check_whole()
        while len(self.pages) * self.page_tokens < self.length + tokens:
            self.pages.append(self._new_page())

    def _new_page(self) -> Page:
        """Makes a page on the first server that can be reached and whose share is not full.

        Servers with an error come last: they may be back."""
        for server in sorted(self.servers, key=lambda one: one.error is not None):
            held = self.page_tokens * sum(page.server is server and not page.is_missing for page in self.pages)
            if 0 < server.max_tokens <= held:
                continue
            try:
                session = self.connect(server)
                return Page(server, session, session.fork())
            except AttendError:
                if server.error is None or held > 0:
                    raise
        where = len(self.pages) * self.page_tokens
        failures = "".join(f"; {name}: {error.message}" for name, error in self.failures().items())
        raise ResourceExhausted(
            f"shards: expected room for token {where}, found all {len(self.servers)} servers full or lost{failures}"
        )

    def check_whole(self) -> None:
        """Raises Unavailable, which names ranges, servers and their errors, if tokens are missing."""
        errors = {name: f" ({error.message})" for name, error in self.failures().items()}
        missing = [
            f"tokens {one.first} to {one.first + one.count - 1} of server {one.server}{errors.get(one.server, '')}"
            for one in self.ranges(missing=True)
        ]
        if missing:
            raise Unavailable(f"lost: {'; '.join(missing)}; append_range brings them back")

    def tokens_of(self, number: int) -> int:
        """Returns the number of tokens of a page: 0 for one that the present call has made."""
        return max(0, min(self.page_tokens, self.length - number * self.page_tokens))

    def missing_pages(self, first: int, count: int) -> List[int]:
        """Returns the numbers of the pages with these tokens. InvalidArgument unless they are whole missing pages."""
        numbers: List[int] = []
        end, number = first, first // self.page_tokens
        is_start = first >= 0 and first % self.page_tokens == 0
        while is_start and number < len(self.pages) and self.pages[number].is_missing and end < first + count:
            numbers.append(number)
            end += self.tokens_of(number)
            number += 1
        if end != first + count:
            raise InvalidArgument(
                f"range: expected the tokens of whole pages of {self.page_tokens} that are lost (missing), found {count} "
                f"tokens from {first} on"
            )
        return numbers

    def ranges(self, missing: bool) -> List[ShardRange]:
        """Returns the ranges of the missing pages, or of the others. Neighbours on one server are joined."""
        ranges: List[ShardRange] = []
        for number, page in enumerate(self.pages):
            count = self.tokens_of(number)
            if page.is_missing != missing or count == 0:
                continue
            last, first, server = ranges[-1] if ranges else None, number * self.page_tokens, page.server.client.name
            if last and last.server == server and last.first + last.count == first:
                ranges[-1] = dataclasses.replace(last, count=last.count + count)
            else:
                ranges.append(ShardRange(first, count, server))
        return ranges

    def take_back(self, fresh: Sequence[Page]) -> None:
        """Removes the pages `fresh`, and what a call added to others that did not end, on servers that are not lost.

        A page from which a server does not remove tokens is lost: its answers would be those of other tokens."""
        for page in fresh:
            _ignoring_errors(page.session.release, page.sequence)
        for number, page in enumerate(self.pages):
            tokens = self.tokens_of(number)
            if tokens == 0:
                _ignoring_errors(page.session.release, page.sequence)
            elif tokens < self.page_tokens and not page.is_missing:
                try:
                    page.session.truncate(tokens, page.sequence)
                except AttendError:
                    page.lost = True
                    _ignoring_errors(page.session.release, page.sequence)
        self.pages = [page for number, page in enumerate(self.pages) if self.tokens_of(number) > 0]


def check_client(client: Any) -> None:
    if not isinstance(client, Client):
        raise TypeError(f"client: expected an attend.Client, found {type(client).__name__}")


def _ignoring_errors(act: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.suppress(AttendError):
        act(*arguments)
