"""AsyncClient has Client's surface and Client's answers."""

import asyncio
import inspect
import threading
import unittest
import unittest.mock

import attend
import attend.aio
import grpc
import numpy as np
from support import FakeServer, ServedTest, seeded


class AsyncClientTest(ServedTest, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = attend.AsyncClient(self.server.address)
        self.addAsyncCleanup(self.client.close)

    def whole(self, x, **keywords):
        with attend.Client(self.server.address) as client:
            return client.attend(x, **keywords)

    async def test_many_calls_at_once_have_their_own_answers(self):
        inputs = [seeded(n % 7 + 1, 512, seed=n) for n in range(40)]
        results = await asyncio.gather(*(self.client.attend(x, model="demo", causal=True) for x in inputs))
        for x, result in zip(inputs, results):
            np.testing.assert_array_equal(result.output, self.whole(x, model="demo", causal=True).output)

    async def test_streams_equal_unary(self):
        x = seeded(2, 5, 512)
        stream = self.client.attend_stream(x, model="demo", return_weights=True)
        kinds = {type(block) async for block in stream}
        self.assertEqual(kinds, {attend.RowBlock, attend.WeightsBlock})
        result, whole = await stream.result(), self.whole(x, model="demo", return_weights=True)
        np.testing.assert_array_equal(result.output, whole.output)
        np.testing.assert_array_equal(result.weights[1], whole.weights[1])

    async def test_sessions_equal_one_request(self):
        x = seeded(12, 512)
        whole = self.whole(x, model="demo", causal=True).output
        async with self.client.session(model="demo", resume_ttl=1) as session:
            self.assertNotEqual(session.resume_token, "")
            await session.prefill(x[:3])
            sequences = [0] + [await session.fork() for _ in range(3)]

            async def decode(sequence):
                steps = [await session.step(x[i : i + 1], sequence=sequence) for i in range(3, 12)]
                return np.concatenate([step.output for step in steps])

            for output in await asyncio.gather(*map(decode, sequences)):
                np.testing.assert_array_equal(output, whole[3:])
            with self.assertRaises(attend.InvalidArgument):
                await session.truncate(99)
            self.assertEqual((await session.truncate(2)).length, 2)
            self.assertEqual((await session.release(1)).usage.sequences, 3)
        with self.assertRaises(attend.FailedPrecondition):
            await session.step(x)

    async def test_a_cancelled_step_counts_until_truncate_takes_it_back(self):
        x = seeded(5, 512)
        async with self.client.session(model="demo") as session:
            whole = (await session.step(x[:2])).output
            step = asyncio.ensure_future(session.step(x[2:]))
            await asyncio.sleep(0)  # until it waits for the answer
            step.cancel()
            self.assertEqual((await session.step(x[:1])).length, 6)
            await session.truncate(0)
            np.testing.assert_array_equal((await session.step(x[:2])).output, whole)

    async def test_a_task_that_is_cancelled_at_any_moment_of_a_session_ends(self):
        async def decode():
            async with self.client.session(model="demo") as session:
                while True:
                    await session.step(seeded(1, 512))

        for turns in range(150):
            task = asyncio.ensure_future(decode())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            self.assertTrue(task.cancelled(), f"after {turns} turns of the loop")

    async def test_a_session_is_opened_once(self):
        session = self.client.session(model="demo")
        opened = await asyncio.gather(session.open(), session.open(), return_exceptions=True)
        self.assertEqual([type(error) for error in opened if error is not None], [attend.FailedPrecondition])
        await session.prefill(seeded(3, 512))
        with self.assertRaisesRegex(attend.FailedPrecondition, "open: expected a session that is not open"):
            await session.open()
        self.assertEqual((await session.step(seeded(1, 512))).length, 4)
        await session.fork()
        await session.close()
        async with session:
            self.assertEqual(await session.fork(), 1, "it is another session then")

    async def test_a_session_that_was_cancelled_can_be_opened_again(self):
        session = self.client.session(model="demo")
        for _ in range(20):
            await session.open()
            self.assertEqual((await session.step(seeded(2, 512))).length, 2)
            session.cancel()
        for _ in range(3):
            with self.assertRaises(ZeroDivisionError):
                async with session:
                    await session.step(seeded(1, 512))
                    raise ZeroDivisionError

    async def test_a_stream_that_is_cancelled_between_attempts_ends(self):
        stream = self.client.attend_stream(seeded(1, 512), model="demo")
        failures = iter([True])

        async def fails(call):
            if next(failures, False):
                raise Unavailable
            return await next_message(call)

        class Unavailable(grpc.RpcError):
            code = lambda self: grpc.StatusCode.UNAVAILABLE
            details = lambda self: "as told"
            trailing_metadata = lambda self: ()

        next_message = attend.aio.next_message
        with unittest.mock.patch("attend.aio.next_message", fails):
            result = asyncio.ensure_future(stream.result())
            await asyncio.sleep(0)
            stream.cancel()
            with self.assertRaises(attend.Cancelled):
                await result

    def test_a_client_without_an_event_loop_says_so(self):
        found = []

        def make():
            try:
                attend.AsyncClient(self.server.address)
            except attend.FailedPrecondition as error:
                found.append(str(error))

        thread = threading.Thread(target=make)  # which has no event loop
        thread.start()
        thread.join()
        self.assertEqual(found, ["FAILED_PRECONDITION: client: expected an event loop, found none: make it in a coroutine"])

    def test_a_client_in_another_event_loop_than_its_own_says_so(self):
        async def make():
            return attend.AsyncClient(self.server.address)

        async def use():
            with self.assertRaisesRegex(attend.FailedPrecondition, "client: expected the event loop in which it was made"):
                await client.list_models()

        first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
        client = first.run_until_complete(make())
        second.run_until_complete(use())
        first.run_until_complete(client.close())
        first.close()
        second.close()

    async def test_what_servers_say_and_errors(self):
        self.assertIn("demo", [model.name for model in await self.client.list_models()])
        self.assertTrue(await self.client.check_health())
        self.assertGreaterEqual((await self.client.get_statistics()).succeeded, 0)
        self.assertEqual((await self.client.get_model("gpt2")).name, "gpt2")
        with self.assertRaisesRegex(attend.NotFound, 'found "nobody"'):
            await self.client.get_model("nobody")
        with self.assertRaises(attend.InvalidArgument):
            await self.client.attend_stream(seeded(2, 3), model="demo").result()
        with self.assertRaises(attend.NotFound):
            async with self.client.session(model="nobody"):
                pass

    async def test_cancelling_a_task_cancels_its_call(self):
        cancelled = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def answer(_, __, context):
            context.add_callback(lambda: loop.call_soon_threadsafe(cancelled.set_result, True))
            began.set()
            began.wait_for_end()
            return [b""]

        began = _Began()
        server = FakeServer(answer)
        self.addCleanup(server.stop)
        async with attend.AsyncClient(server.address) as client:
            task = asyncio.ensure_future(client.attend(token_ids=[1], model="demo"))
            await asyncio.get_running_loop().run_in_executor(None, began.wait)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(await asyncio.wait_for(cancelled, 10))
        began.end()

    async def test_what_ends_with_its_client_or_by_cancel_raises_attend_errors(self):
        client = attend.AsyncClient(self.server.address)
        x = seeded(3000, 512)
        under_way = [asyncio.ensure_future(client.attend(x, model="demo")) for _ in range(2)]
        stream = client.attend_stream(x, model="demo")
        waiting = asyncio.ensure_future(stream.result())
        await asyncio.sleep(0)
        just_begun = asyncio.ensure_future(client.attend(x, model="demo"))
        await asyncio.sleep(0)
        await client.close()
        await client.close()
        for call in (
            *under_way, just_begun, waiting, stream.result(),
            client.attend(token_ids=[1], model="demo"),
            client.list_models(),
            client.session(model="demo").open(),
        ):
            with self.assertRaisesRegex(attend.Cancelled, "the client is closed"):
                await call
        with self.assertRaisesRegex(attend.Cancelled, "the client is closed"):
            client.attend_stream(token_ids=[1], model="demo")
        stream = self.client.attend_stream(x, model="demo")
        stream.cancel()
        with self.assertRaisesRegex(attend.Cancelled, "the call was cancelled"):
            await stream.result()

    async def test_a_cancelled_task_is_cancelled_even_if_its_client_closes(self):
        client = attend.AsyncClient(self.server.address)
        tasks = [asyncio.ensure_future(client.attend(seeded(3000, 512), model="demo"))]
        tasks.append(asyncio.ensure_future(client.attend_stream(seeded(3000, 512), model="demo").result()))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await client.close()
        await asyncio.wait(tasks)
        self.assertEqual([task.cancelled() for task in tasks], [True, True])

    def test_both_clients_have_the_same_calls_with_the_same_arguments(self):
        for sync, other in (
            (attend.Client, attend.AsyncClient),
            (attend.AttendStream, attend.AsyncAttendStream),
            (attend.Session, attend.AsyncSession),
        ):
            for name, member in inspect.getmembers(sync):
                if not name.startswith("_") and inspect.isfunction(member):
                    self.assertEqual(
                        inspect.signature(member).parameters.keys(),
                        inspect.signature(getattr(other, name)).parameters.keys(),
                        name,
                    )


class _Began:
    """Whether a call has begun, and whether it may end."""

    def __init__(self):
        import threading

        self._began, self._ended = threading.Event(), threading.Event()
        self.set, self.end = self._began.set, self._ended.set

    def wait(self):
        assert self._began.wait(10)

    def wait_for_end(self):
        self._ended.wait(10)


if __name__ == "__main__":
    unittest.main()
