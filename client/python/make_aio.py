"""Makes the client for asyncio from client.py, and its session from session.py: the same calls, awaited."""

import re
from typing import Dict

# The texts of client.py that differ in aio.py.
CLIENT = {
    "import grpc\n": "import grpc\nimport grpc.aio\n",
    "attend._threads": "attend._tasks",
    "        self._maker.ends_with_process = True\n": "",
    "channel(grpc, ": "channel(grpc.aio, ",
    "TYPE_CHECKING, Any, ": "TYPE_CHECKING, Any, AsyncIterator, ",
    "Iterator[Block]": "AsyncIterator[Block]",
    "StopIteration": "StopAsyncIteration",
    "class Client": "class AsyncClient",
    '-> "Client"': '-> "AsyncClient"',
    "class AttendStream": "class AsyncAttendStream",
    '-> "AttendStream"': '-> "AsyncAttendStream"',
    "return AttendStream(": "return AsyncAttendStream(",
    "attend.session import Session, Terms": "attend.aio_session import AsyncSession, Terms",
    "-> Session": "-> AsyncSession",
    "return Session(": "return AsyncSession(",
    "Thread-safe; calls of many threads share its connections.": "It belongs to the event loop that runs when it is made.",
    "Only one thread may use it.": "Iterate with `async for`.",
    "use it in a `with`": "use it in an `async with`",
    "self._line.pause(": "await self._line.pause(",
    "self._line.close()": "await self._line.close()",
    "        self.close()": "        await self.close()",
    "return self._run(": "return await self._run(",
    "data = finished(": "data = await finished(",
    "data := self._next_message()": "data := await self._next_message()",
    "data = next_message(": "data = await next_message(",
    "for _ in self:": "async for _ in self:",
    "if self.check_health(": "if await self.check_health(",
}
SESSION = {
    "import time\n": "import asyncio\nimport time\n",
    "attend._threads": "attend._tasks",
    "class Session:": "class AsyncSession:",
    '-> "Session"': '-> "AsyncSession"',
    "Client.session() makes it. Thread-safe: actions\n    on different sequences may run side by side.":
        "AsyncClient.session() makes it;\n    `async with`, or open(), opens it. Tasks may act on different sequences side by side.",
    "use it in a with": "use it in an async with",
    "        self._open()\n": "",
    "def _open(": "def open(",
    "        return self\n": "        await self.open()\n        return self\n",
    "            self.close()": "            await self.close()",
    "self._line.look(": "await self._line.look(",
    "self._act(": "await self._act(",
    "= messages.get(": "= await messages.get(",
    "if not self._reader": "if not await self._reader",
    "for data in call:": "async for data in call:",
    "Optional[Session]": "Optional[AsyncSession]",
    "    except grpc.RpcError": '    except asyncio.CancelledError:\n        error = Cancelled("the session was cancelled, or the client is closed")\n'
        "    except grpc.RpcError",
}
WAITS = re.compile(r"\bawait |\basync for |def __a(enter|exit)__")


def async_source(source: str, changes: Dict[str, str]) -> str:
    for old, new in changes.items():
        if old not in source:
            raise SystemExit(f"expected {old!r} in the source of the client for asyncio, found none")
        source = source.replace(old, new)
    source = re.sub("__(iter|next|enter|exit)__", r"__a\1__", source)
    # A function ends where the next one begins; functions within others await nothing.
    functions = re.split(r"^(?=(?:    )?def )", source, flags=re.MULTILINE)
    return "".join(re.sub("def ", "async def ", text, count=1) if WAITS.search(text) else text for text in functions)
