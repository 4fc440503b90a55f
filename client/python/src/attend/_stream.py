"""Reads the messages of a streamed answer, for both clients."""

from __future__ import annotations

from typing import Optional

from attend._answers import Assembler, checked, read_block
from attend._mirror import mirror
from attend._requests import Request
from attend._wire import MalformedMessage, Received
from attend.errors import FailedPrecondition, Internal
from attend.models import Summary
from attend.results import AttendResult, Block


class StreamReader:
    """Reads the messages of one AttendStream."""

    def __init__(self, request: Request, assemble: bool) -> None:
        self._request = request
        message = request.message
        self._assemble = assemble
        self._assembler = Assembler(message, request.home, message.options, message.weights_choice, joins=assemble)
        self.summary: Optional[Summary] = None

    def read(self, data: bytes) -> Optional[Block]:
        """Returns the block of a message, or None for the summary, which comes last."""
        return checked(self._read)(data)

    def _read(self, data: bytes) -> Optional[Block]:
        if self.summary is not None:
            raise MalformedMessage("message of a stream: expected none after the summary, found another")
        received = Received("AttendStreamResponse", data)
        if received.message.WhichOneof("part") == "summary":
            self.summary = mirror(received.message.summary)
            return None
        block = read_block(received, received.message, self._request.home)
        self._assembler.add(block)
        return block

    def check_end(self) -> None:
        """Checks, after the end of the stream, that it had all rows and a summary. Internal if not."""
        if self.summary is None:
            raise Internal("malformed answer: summary: expected one, found none")
        checked(self._assembler.check_whole)()

    def result(self) -> AttendResult:
        """Returns all blocks joined. REQUIRES: check_end passed."""
        if not self._assemble:
            raise FailedPrecondition("result: expected a stream with assemble=True, found one without")
        assert self.summary is not None
        return checked(self._assembler.finish)(self.summary)
