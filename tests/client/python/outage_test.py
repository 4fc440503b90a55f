"""What a client does while its server is away, and when it is back."""

import asyncio
import socket
import tempfile
import threading
import time
import unittest
import unittest.mock

import attend
import attend.aio
import grpc
from support import TIMEOUT, FakeServer, Server, error_of


def free_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % taken.getsockname()[1]


class LookTest(unittest.TestCase):
    def look_for(self, seconds):
        """Lets clients look for their server so long before they open a session."""
        for module in ("attend._threads", "attend._tasks"):
            patch = unittest.mock.patch(f"{module}.LOOK_SECONDS", seconds)
            patch.start()
            self.addCleanup(patch.stop)


class ReturningServerTest(LookTest):
    def check_the_first_session(self, address):
        self.look_for(0.01)
        with attend.Client(address) as client:
            server = Server(listen=address)
            client.session(model="demo").close()
            server.stop()
            for _ in range(2):
                self.assertRegex(error_of(lambda: client.session(model="demo")), "^Unavailable: ")
            server = Server(listen=address)
            self.addCleanup(server.stop)
            self.look_for(TIMEOUT)
            client.session(model="demo").close()

    def test_the_first_session_after_an_outage_opens(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check_the_first_session(f"unix:{folder}/attend.sock")

    def test_also_over_tcp_where_the_failure_of_an_attempt_may_be_yet_to_come(self):
        self.check_the_first_session(free_address())

    def test_with_asyncio(self):
        async def sessions(address):
            async def opened():
                async with client.session(model="demo") as session:
                    return session.length

            async with attend.aio.AsyncClient(address) as client:
                server = Server(listen=address)
                self.assertEqual(await opened(), 0)
                server.stop()
                for _ in range(2):
                    with self.assertRaises(attend.Unavailable):
                        await opened()
                server = Server(listen=address)
                self.addCleanup(server.stop)
                self.look_for(TIMEOUT)
                self.assertEqual(await opened(), 0)

        self.look_for(0.01)
        asyncio.run(sessions(free_address()))


class AwayTest(LookTest):
    def test_looking_for_a_server_ends_with_the_time_of_an_action(self):
        async def open_one():
            async with attend.aio.AsyncClient(address) as client:
                for _ in range(2):
                    with self.assertRaises(attend.AttendError):
                        await client.session(model="demo", timeout=0.05).open()

        self.look_for(TIMEOUT)
        address = free_address()
        begin = time.monotonic()
        with attend.Client(address) as client:
            for _ in range(2):
                self.assertIsNotNone(error_of(lambda: client.session(model="demo", timeout=0.05)))
        asyncio.run(open_one())
        self.assertLess(time.monotonic() - begin, TIMEOUT)

    def test_a_session_of_a_closed_client_does_not_look(self):
        self.look_for(TIMEOUT)
        client = attend.Client(free_address())
        client.close()
        begin = time.monotonic()
        self.assertRegex(error_of(lambda: client.session(model="demo")), "^Cancelled: .*the client is closed$")
        self.assertLess(time.monotonic() - begin, TIMEOUT)


class PauseTest(unittest.TestCase):
    """Of a call that waits to be made again: its server has said, in an hour."""

    def setUp(self):
        def answer(_, __, context):
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "3600000"),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "as told")

        self.fake = FakeServer(answer)
        self.addCleanup(self.fake.stop)

    def wait_for_call(self):
        while not self.fake.calls:
            time.sleep(0.001)

    def test_close_ends_it(self):
        client, errors = attend.Client(self.fake.address, timeout=7200), []
        caller = threading.Thread(target=lambda: errors.append(error_of(client.list_models)), daemon=True)
        caller.start()
        self.wait_for_call()
        client.close()
        caller.join(TIMEOUT)
        self.assertEqual(len(errors), 1)
        self.assertRegex(errors[0], "^Cancelled: ")

    def test_close_ends_it_with_asyncio(self):
        async def close_meanwhile():
            client = attend.aio.AsyncClient(self.fake.address, timeout=7200)
            call = asyncio.ensure_future(client.list_models())
            await asyncio.get_running_loop().run_in_executor(None, self.wait_for_call)
            await client.close()
            with self.assertRaises(attend.Cancelled):
                await asyncio.wait_for(call, TIMEOUT)

        asyncio.run(close_meanwhile())

    def test_close_leaves_no_word_of_grpcs_threads(self):
        said = []
        self.addCleanup(setattr, threading, "excepthook", threading.excepthook)
        threading.excepthook = lambda error: said.append(error.exc_value)
        for number in range(40):
            client = attend.Client("127.0.0.1:1", timeout=TIMEOUT)
            caller = threading.Thread(target=error_of, args=(client.list_models,))
            caller.start()
            time.sleep(0.001 * number)
            client.close()
            caller.join()
        self.assertEqual(said, [])


if __name__ == "__main__":
    unittest.main()
