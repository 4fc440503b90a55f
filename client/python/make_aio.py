"""Makes the client for asyncio of client.py: the same calls, awaited."""

import re

# What is called otherwise there.
NAMES = {
    "import time\n": "import asyncio\n",
    "import grpc\n": "import grpc\nimport grpc.aio\n",
    "channel(grpc, ": "channel(grpc.aio, ",
    "TYPE_CHECKING, Any, ": "TYPE_CHECKING, Any, AsyncIterator, ",
    "Iterator[Block]": "AsyncIterator[Block]",
    "StopIteration": "StopAsyncIteration",
    "class Client": "class AsyncClient",
    '-> "Client"': '-> "AsyncClient"',
    "class AttendStream": "class AsyncAttendStream",
    '-> "AttendStream"': '-> "AsyncAttendStream"',
    "return AttendStream(": "return AsyncAttendStream(",
    "attend.session import Session": "attend.aio_session import AsyncSession",
    "-> Session": "-> AsyncSession",
    "return Session(": "return AsyncSession(",
    "Thread-safe; calls of many threads share its connections.": "Belongs to the event loop that is running when it is made.",
    "One thread's.": "Iterate with `async for`.",
    "use it in a `with`": "use it in an `async with`",
}
# What is waited for there.
AWAITS = {
    "time.sleep(": "await asyncio.sleep(",
    "next(call, None)\n    return data": "await call.read()\n    return None if data is grpc.aio.EOF else data",
    "self._channel.close()": "await self._channel.close()",
    "        self.close()": "        await self.close()",
    "return self._run(": "return await self._run(",
    'data = self._method("unary': 'data = await self._method("unary',
    "data := self._next_message()": "data := await self._next_message()",
    "data = next_message(": "data = await next_message(",
    "for _ in self:": "async for _ in self:",
    "if self.check_health(": "if await self.check_health(",
}
WAITS = re.compile(r"\bawait |\basync for |def __a(enter|exit)__")


def async_source(source: str) -> str:
    for old, new in {**NAMES, **AWAITS}.items():
        if old not in source:
            raise SystemExit(f"client.py: expected {old!r}, found none")
        source = source.replace(old, new)
    source = re.sub("__(iter|next|enter|exit)__", r"__a\1__", source)
    # A function ends where the next one begins; those within others wait for nothing.
    functions = re.split(r"^(?=(?:    )?def )", source, flags=re.MULTILINE)
    return "".join(re.sub("def ", "async def ", text, count=1) if WAITS.search(text) else text for text in functions)
