"""A sequence over several servers, against one session that holds all of it."""

import asyncio
import gc
import signal
import tempfile
import threading
import unittest
import unittest.mock
import weakref

import attend
import numpy as np
from attend._sharding import merge
from support import TIMEOUT, Server, error_of, eventually, relative_error, seeded

PAGE = 2048
TOKENS = 3 * PAGE + 100
HEADS = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "value_head_dim": 8}
Q, K, V = seeded(TOKENS, 4, 16), seeded(TOKENS, 2, 16, seed=2), seeded(TOKENS, 2, 8, seed=3)


class ShardedSessionTest(unittest.TestCase):
    def setUp(self):
        self.servers = []
        self.clients = []
        for _ in range(3):
            self.add_server()

    def add_server(self, *flags):
        self.servers.append(Server("--threads=1", *flags))
        self.addCleanup(self.stop, len(self.servers) - 1)
        self.clients.append(attend.Client(self.servers[-1].address, timeout=TIMEOUT))
        self.addCleanup(self.clients[-1].close)
        return self.clients[-1]

    def stop(self, number):
        if self.servers[number] is not None:
            self.servers[number].stop()
        self.servers[number] = None

    def open(self, *pages, **options):
        shards = [(client, one and one * PAGE) for client, one in zip(self.clients, pages)]
        session = attend.ShardedSession(shards, HEADS, **options)
        self.addCleanup(session.close)
        return session

    def fill(self, session, end=TOKENS - 5):
        session.append(K[session.length : end], V[session.length : end])
        return session

    def step(self, session, count=5):
        rows = slice(session.length, session.length + count)
        return session.step(Q[rows], K[rows], V[rows])

    def test_three_servers_answer_as_one_does(self):
        for options in ({"sinks": [0.5, -1, 3, 0]}, {"rotary": {}, "window": 3000}):
            with self.clients[0].session(heads=HEADS, return_log_sum_exp=True, **options) as one:
                one.prefill(query=Q[:-5], key=K[:-5], value=V[:-5])
                whole = one.step(query=Q[-5:], key=K[-5:], value=V[-5:])
            result = self.step(self.fill(self.open(1, 1, None, **options)))
            self.assertLess(relative_error(result.output, whole.output), 1e-6)
            self.assertLess(relative_error(result.log_sum_exp, whole.log_sum_exp), 1e-6)

    def test_rows_that_are_not_causal_attend_to_all_keys_of_their_call(self):
        # The second call has more rows than a step on a server may have.
        for options in ({}, {"window": 30, "window_right": 2500}):
            with self.clients[0].session(heads=HEADS, return_log_sum_exp=True, causal=False, **options) as one:
                one.prefill(query=Q[:100], key=K[:100], value=V[:100])
                rows = slice(100, 2 * PAGE + 150)
                whole = one.step(query=Q[rows], key=K[rows], value=V[rows])
            result = self.step(self.fill(self.open(1, 1, None, causal=False, **options), 100), 2 * PAGE + 50)
            self.assertLess(relative_error(result.output, whole.output), 1e-6)
            self.assertLess(relative_error(result.log_sum_exp, whole.log_sum_exp), 1e-6)

    def test_bits_do_not_depend_on_the_cuts(self):
        even, uneven = self.fill(self.open(1, 1, None)), self.fill(self.fill(self.open(2, None), 100))
        self.assertEqual([(one.first, one.count) for one in even.held()], [(0, PAGE), (PAGE, PAGE), (2 * PAGE, PAGE + 95)])
        expected = self.step(even)
        np.testing.assert_array_equal(self.step(uneven).output, expected.output)

    def test_rows_travel_in_the_dtype_of_the_heads(self):
        whole = self.step(self.open(None), PAGE)
        for dtype, least, most in (("bf16", 1e-3, 1e-2), (np.float16, 1e-4, 2e-3)):
            with attend.ShardedSession([(self.clients[0], None)], {**HEADS, "dtype": dtype}) as session:
                error = relative_error(self.step(session, PAGE).output, whole.output)
                self.assertGreater(error, least, "they are rounded")
                self.assertLess(error, most)

    def test_no_step_is_larger_than_a_server_takes(self):
        # 2,048 rows of query, key and value have 917,504 bytes, and their keys and values 393,216.
        client = self.add_server("--max-message-bytes=300000")
        whole, cut = self.open(None), attend.ShardedSession([(client, None)], HEADS)
        self.addCleanup(cut.close)
        for session in (whole, cut):
            self.fill(session, PAGE + 100)
        np.testing.assert_array_equal(self.step(cut, 2 * PAGE).output, self.step(whole, 2 * PAGE).output)
        self.assertEqual((cut.length, cut.missing()), (3 * PAGE + 100, []))

    def test_wrong_arguments_are_named(self):
        client = self.clients[0]
        for shards, heads, options, expected in (
            ([(client, None)], None, {}, "TypeError: heads: expected a mapping"),
            ([(client, None)], [4, 16], {}, "TypeError: heads: expected a mapping"),
            ([(client, None)], {"head_dim": 4}, {"sinks": [1]}, "TypeError: heads.num_heads: expected an integer, found None"),
            (None, HEADS, {}, "TypeError: shards: expected a list, found None"),
        ):
            found = error_of(lambda: attend.ShardedSession(shards, heads, **options))
            self.assertTrue(found.startswith(expected), found)
        attend.ShardedSession(((one, None) for one in self.clients), HEADS).close()

    def test_each_server_holds_its_share_of_the_memory(self):
        self.fill(self.open(1, 1, None), 3 * PAGE)
        page = PAGE * 2 * (16 + 8) * 4
        for client in self.clients:
            self.assertGreaterEqual(client.get_statistics().cache_bytes, page)
            self.assertLess(client.get_statistics().cache_bytes, 2 * page)

    def test_lost_tokens_are_named_and_brought_back_elsewhere(self):
        session = self.fill(self.open(1, 1, None))
        self.stop(1)
        address = self.clients[1].name
        with self.assertRaisesRegex(attend.Unavailable, f"lost: tokens 2048 to 4095 of server {address}"):
            self.step(session)
        self.assertEqual(session.missing(), [attend.ShardRange(PAGE, PAGE, address)])
        self.assertEqual(session.length, TOKENS - 5)
        with self.assertRaisesRegex(attend.InvalidArgument, "found 10 tokens from 2048 on"):
            session.append_range(PAGE, K[:10], V[:10], self.clients[0])
        session.append_range(PAGE, K[PAGE : 2 * PAGE], V[PAGE : 2 * PAGE], self.clients[0])
        self.assertEqual(session.missing(), [])
        result = self.step(session).output
        self.assertEqual(session.held()[0], attend.ShardRange(0, 2 * PAGE, self.clients[0].name))
        whole = self.fill(self.open(None))
        np.testing.assert_array_equal(result, self.step(whole).output)

    def test_pages_in_a_session_that_broke_unnoticed_are_missing(self):
        # The sequence numbers of those pages name others in a new session with the same server.
        session = self.fill(self.open(1, 1, None))
        self.stop(1)
        with self.assertRaises(attend.Unavailable):
            self.step(session)
        session._pages.servers[0].session.cancel()  # as when the server ends and comes back between two calls
        self.assertTrue(eventually(lambda: session._pages.servers[0].error is not None))
        session.append_range(PAGE, K[PAGE : 2 * PAGE], V[PAGE : 2 * PAGE], self.clients[0])
        self.assertEqual(session.missing(), [attend.ShardRange(0, PAGE, self.clients[0].name)])
        with self.assertRaisesRegex(attend.Unavailable, "lost: tokens 0 to 2047"):
            self.step(session)
        session.append_range(0, K[:PAGE], V[:PAGE], self.clients[0])
        whole = self.fill(self.open(None))
        np.testing.assert_array_equal(self.step(session).output, self.step(whole).output)

    def test_pages_of_a_call_that_fails_are_released(self):
        session = self.fill(self.open(1, 1), 10)
        for _ in range(3):
            with self.assertRaisesRegex(attend.ResourceExhausted, "room for token 4096"):
                self.fill(session, 3 * PAGE)
        self.fill(session, 20)
        self.assertEqual(session.held(), [attend.ShardRange(0, 20, self.clients[0].name)])
        self.fill(session, PAGE + 10)
        self.assertEqual([(one.first, one.count) for one in session.held()], [(0, PAGE), (PAGE, 10)])
        # A fork has the lowest number that is free: nothing but the page is left.
        self.assertEqual([server.session.fork() for server in session._pages.servers], [2, 2])

    def test_a_page_that_keeps_tokens_of_a_failed_call_is_missing(self):
        session = self.fill(self.open(1, None), PAGE + 10)
        refused = attend.ResourceExhausted("not now")
        first, second = (server.session for server in session._pages.servers)
        with unittest.mock.patch.object(first, "step", side_effect=refused):
            with unittest.mock.patch.object(second, "truncate", side_effect=refused):
                with self.assertRaisesRegex(attend.Unavailable, "lost: tokens 2048 to 2057 of server"):
                    self.step(session)
        self.assertEqual(second.fork(), 1, "the page is released")
        self.assertEqual(session.missing(), [attend.ShardRange(PAGE, 10, self.clients[1].name)])
        self.assertEqual(session.failures(), {})
        session.append_range(PAGE, K[PAGE : PAGE + 10], V[PAGE : PAGE + 10], self.clients[1])
        whole = self.fill(self.open(None), PAGE + 10)
        np.testing.assert_array_equal(self.step(session).output, self.step(whole).output)

    def test_pages_that_do_not_come_back_are_released(self):
        small = self.add_server(f"--max-cache-bytes={PAGE * 2 * (16 + 8) * 4}")
        session = self.fill(self.open(2, None), 2 * PAGE)
        self.stop(0)
        with self.assertRaises(attend.Unavailable):
            self.step(session)
        for _ in range(2):
            with self.assertRaisesRegex(attend.ResourceExhausted, "--max-cache-bytes"):
                session.append_range(0, K[: 2 * PAGE], V[: 2 * PAGE], small)
        self.assertEqual(session._pages.servers[-1].session.fork(), 1)
        self.assertEqual(session.missing(), [attend.ShardRange(0, 2 * PAGE, self.clients[0].name)])
        self.assertEqual(list(session.failures()), [self.clients[0].name])

    def test_a_server_that_is_not_there_is_passed_over(self):
        with attend.Client("127.0.0.1:1", timeout=TIMEOUT) as nobody:
            shards = [(self.clients[0], PAGE), (nobody, None), (self.clients[1], PAGE)]
            with attend.ShardedSession(shards, HEADS) as session:
                self.fill(session, 2 * PAGE)
                self.assertEqual([one.server for one in session.held()], [one.name for one in self.clients[:2]])
                self.assertEqual([type(error) for error in session.failures().values()], [attend.Unavailable])
                with self.assertRaisesRegex(attend.ResourceExhausted, "full or lost; 127.0.0.1:1: "):
                    self.step(session)

    def test_a_server_that_was_passed_over_takes_pages_once_it_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/attend.sock"
            with attend.Client(address, timeout=TIMEOUT) as late:
                session = attend.ShardedSession([(self.clients[0], PAGE), (late, None)], HEADS)
                self.addCleanup(session.close)
                self.fill(session, PAGE)
                with self.assertRaisesRegex(attend.ResourceExhausted, f"full or lost; {address}: "):
                    self.step(session)
                self.assertEqual(list(session.failures()), [address])
                server = Server("--threads=1", listen=address)
                self.addCleanup(server.stop)
                late.wait_until_ready()
                self.step(session)
                self.assertEqual(session.held()[1], attend.ShardRange(PAGE, 5, address))
                self.assertEqual(session.failures(), {})

    def test_a_server_that_was_lost_takes_pages_again(self):
        session = self.fill(self.open(1, None), PAGE + 10)
        session._pages.servers[1].session.cancel()
        with self.assertRaisesRegex(attend.Unavailable, "lost: tokens 2048 to 2057"):
            self.step(session)
        session.append_range(PAGE, K[PAGE : PAGE + 10], V[PAGE : PAGE + 10], self.clients[0])
        self.fill(session, 2 * PAGE + 10)
        self.assertEqual(session.held()[1], attend.ShardRange(2 * PAGE, 10, self.clients[1].name))
        self.assertEqual(session.failures(), {})

    def test_the_newest_failure_of_a_lost_server_is_told(self):
        own = attend.Client(self.clients[1].name, timeout=TIMEOUT)
        session = attend.ShardedSession([(self.clients[0], PAGE), (own, None)], HEADS)
        self.addCleanup(session.close)
        self.fill(session, PAGE)
        session._pages.connect(session._pages.servers[1]).cancel()
        self.assertEqual([type(error) for error in session.failures().values()], [attend.Cancelled])
        self.assertNotIn("closed", str(session.failures()))
        own.close()
        with self.assertRaisesRegex(attend.ResourceExhausted, "the client is closed"):
            self.step(session)
        self.assertIn("the client is closed", str(session.failures()[own.name]))

    def test_a_lost_server_may_come_back_as_a_new_client(self):
        session = self.fill(self.open(1, None), PAGE + 10)
        session._pages.servers[1].session.cancel()
        self.assertEqual(list(session.failures()), [self.clients[1].name])
        with attend.Client(self.clients[1].name, timeout=TIMEOUT) as again:
            session.append_range(PAGE, K[PAGE : PAGE + 10], V[PAGE : PAGE + 10], again)
            self.assertEqual((session.missing(), session.failures()), ([], {}))
            self.step(session)
            session.close()

    def test_a_new_server_that_cannot_be_reached_is_not_added(self):
        session = self.fill(self.open(1), PAGE)
        session._pages.servers[0].session.cancel()
        with attend.Client("127.0.0.1:1", timeout=TIMEOUT) as nobody, self.assertRaises(attend.Unavailable):
            session.append_range(0, K[:PAGE], V[:PAGE], nobody)
        self.assertEqual(list(session.failures()), [self.clients[0].name])

    def test_a_client_that_cannot_connect_takes_no_place(self):
        session = self.fill(self.open(1, None), PAGE + 10)
        session._pages.servers[1].session.cancel()
        rows = (K[PAGE : PAGE + 10], V[PAGE : PAGE + 10])
        closed = attend.Client(self.clients[1].name)
        closed.close()
        with self.assertRaisesRegex(attend.Cancelled, "the client is closed"):
            session.append_range(PAGE, *rows, closed)
        session.append_range(PAGE, *rows, self.clients[0])
        self.fill(session, 2 * PAGE + 10)
        self.assertEqual(session.held()[1], attend.ShardRange(2 * PAGE, 10, self.clients[1].name))

    def test_failures_do_not_keep_the_callers_arrays(self):
        session = self.fill(self.open(1), PAGE)
        self.stop(0)
        self.assertTrue(eventually(lambda: session.missing()))
        key = K[:PAGE].copy()
        kept = weakref.ref(key)
        self.assertRegex(error_of(lambda: session.append_range(0, key, V[:PAGE], self.clients[0])), "^Unavailable: ")
        self.assertEqual(list(session.failures()), [self.clients[0].name])
        del key
        gc.collect()
        self.assertIsNone(kept())

    def test_servers_end_their_sessions_side_by_side(self):
        session = self.fill(self.open(1, 1, None))
        together = threading.Barrier(3)
        for server in session._pages.servers:
            server.session.close = lambda close=server.session.close: (together.wait(TIMEOUT), close())
        session.close()
        self.assertFalse(together.broken)

    def test_interrupted_calls_are_taken_back(self):
        whole = self.fill(self.open(None))
        expected = self.step(whole).output
        main = threading.main_thread().ident
        for interrupts in (1, 2):
            session = self.fill(self.open(1, 1, None), 100)
            one, has_left = session._pages.pages[0].session, threading.Event()
            step = one.step

            def interrupt(**keywords):
                one.step = step
                signal.pthread_kill(main, signal.SIGINT)
                if interrupts == 2:  # while the first one waits for the answer to this step
                    eventually(lambda: session._tasks._attempt == 1)
                    signal.pthread_kill(main, signal.SIGINT)
                    has_left.wait(TIMEOUT)
                return step(**keywords)

            one.step = interrupt
            with self.subTest(interrupts), self.assertRaises(KeyboardInterrupt):
                self.fill(session)
            has_left.set()
            self.assertEqual(session.length, 100)
            np.testing.assert_array_equal(self.step(self.fill(session)).output, expected)

    def test_interrupted_pages_do_not_come_back(self):
        session = self.fill(self.open(1, None), 2 * PAGE)
        self.stop(0)
        with self.assertRaises(attend.Unavailable):
            self.step(session)
        rows, one = (K[:PAGE], V[:PAGE]), session._pages.servers[1].session
        step = one.step

        def interrupt(**keywords):
            one.step = step
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return step(**keywords)

        one.step = interrupt
        with self.assertRaises(KeyboardInterrupt):
            session.append_range(0, *rows, self.clients[1])
        self.assertEqual(session.missing(), [attend.ShardRange(0, PAGE, self.clients[0].name)])
        session.append_range(0, *rows, self.clients[1])
        self.assertEqual(one.fork(), 3, "what was interrupted is released")
        whole = attend.ShardedSession([(self.clients[2], None)], HEADS)
        self.addCleanup(whole.close)
        np.testing.assert_array_equal(self.step(session).output, self.step(self.fill(whole, 2 * PAGE)).output)

    def test_a_closed_session_says_so(self):
        session = self.fill(self.open(1), 10)
        session.close()
        session.close()
        for act in (self.step, self.fill, lambda one: one.append_range(0, K[:10], V[:10], self.clients[0])):
            with self.assertRaisesRegex(attend.FailedPrecondition, "the session was closed"):
                act(session)

    def test_no_message_grows_with_the_page_or_the_call(self):
        # 2,048 rows of query, key and value have 917,504 bytes.
        client = self.add_server("--max-message-bytes=1000000")
        with attend.ShardedSession([(client, None)], HEADS, page_tokens=2 * PAGE) as session:
            self.fill(session, 100)
            result = self.step(session, TOKENS - 100)
        whole = self.fill(self.open(None, page_tokens=2 * PAGE), 100)
        expected = np.concatenate([self.step(whole, count).output for count in (2 * PAGE, TOKENS - 100 - 2 * PAGE)])
        np.testing.assert_array_equal(result.output, expected)
        self.assertEqual(result.log_sum_exp.shape, (4, TOKENS - 100))

    def test_bits_do_not_depend_on_the_cuts_with_small_caches_either(self):
        for cache_dtype in ("bf16", "int8"):
            with self.subTest(cache_dtype):
                even, one = (self.fill(self.open(*pages, cache_dtype=cache_dtype)) for pages in ((1, 1, None), (None,)))
                np.testing.assert_array_equal(self.step(even).output, self.step(one).output)

    def test_refuses_what_does_not_fit(self):
        full = self.fill(self.open(1), PAGE)
        with self.assertRaisesRegex(attend.ResourceExhausted, "room for token 2048, found all 1 servers full or lost"):
            self.step(full)
        for message, wrong in (
            ("query: expected", lambda: full.step(Q[:2], K[:3], V[:3])),
            ("key: expected floating-point rows, found int64", lambda: full.append(K[:3].astype(np.int64), V[:3])),
            ("key: expected floating-point rows, found complex64", lambda: full.append(K[:3] * 1j, V[:3])),
            ("key: expected floating-point rows, found object", lambda: full.append(None, V[:3])),
            (r"key: expected at least one token, found \[\]", lambda: full.append(np.float32(1), V[:3])),
            ("value: expected floating-point rows, found bool", lambda: full.append(K[:3], V[:3] > 0)),
            ("query: expected floating-point rows, found int64", lambda: full.step(Q[:3].astype(np.int64), K[:3], V[:3])),
            ("client: expected an attend.Client, found NoneType", lambda: full.append_range(0, K[:3], V[:3], None)),
            ("value: expected", lambda: full.append(K[:3], K[:3])),
            ("key: expected at least one token", lambda: full.append(K[:0], V[:0])),
            ("page_tokens: expected", lambda: self.open(1, page_tokens=1000)),
            ("heads.dtype: expected .*found 'int3'", lambda: attend.ShardedSession([(self.clients[0], None)], {**HEADS, "dtype": "int3"})),
            ("max_tokens: expected", lambda: attend.ShardedSession([(self.clients[0], 5)], HEADS)),
            ("shards: expected at least one, found none", lambda: attend.ShardedSession([], HEADS)),
            ("shards: expected pairs", lambda: attend.ShardedSession(self.clients[:1], HEADS)),
            ("return_weights: expected", lambda: self.open(1, return_weights=True)),
            ("similarity: expected", lambda: self.open(1, similarity="box", bandwidth=1)),
            ("sinks: expected", lambda: self.open(1, sinks=[1])),
            ("sinks: expected a list, found 3.0", lambda: self.open(1, sinks=3.0)),
            ("sinks: expected a number, found '1'", lambda: self.open(1, sinks=["1"] * 4)),
            ("sinks: expected finite float32 numbers, found .nan", lambda: self.open(1, sinks=[np.nan, 0, 0, 0])),
            ("sinks: expected finite float32 numbers, found .*1e.300", lambda: self.open(1, sinks=[0, 0, 0, 1e300])),
        ):
            with self.subTest(message), self.assertRaisesRegex((TypeError, ValueError), message):
                wrong()
        for similarity in (None, "DOT_PRODUCT"):
            self.open(1, similarity=similarity)

    def test_a_client_for_asyncio_is_no_shard(self):
        async def open_with_one():
            async with attend.AsyncClient(self.clients[0].name) as client:
                attend.ShardedSession([(client, None)], HEADS)

        with self.assertRaisesRegex(TypeError, "client: expected an attend.Client, found AsyncClient"):
            asyncio.run(open_with_one())


class MergeTest(unittest.TestCase):
    def merge(self, *sums, sinks=None):
        """Of parts of one row of one head, whose outputs are their numbers."""
        parts = [(np.full((1, 1, 1), part, np.float32), np.full((1, 1), sum_, np.float32)) for part, sum_ in sums]
        with np.errstate(all="raise"):
            result = merge(parts, sinks)
        return float(result.output[0, 0, 0]), float(result.log_sum_exp[0, 0])

    def test_rows_without_a_share_are_not_used(self):
        for nothing in (np.nan, np.inf):
            self.assertEqual(self.merge((2, 1), (nothing, -2000)), (2, 1))
            self.assertEqual(self.merge((nothing, -np.inf), (2, 1)), (2, 1))
        self.assertEqual(self.merge((np.nan, -np.inf)), (0, -np.inf))
        self.assertTrue(np.isnan(self.merge((np.nan, 0), (2, 1))[0]))

    def test_sums_of_other_heads_are_refused(self):
        with self.assertRaisesRegex(attend.Internal, r"malformed answer: log_sum_exp: expected \[2, 3\], found \[1, 3\]"):
            merge([(np.zeros((3, 2, 4), np.float32), np.zeros((1, 3), np.float32))] * 2, None)

    def test_sinks_of_any_size_join(self):
        for sink, expected in ((0, 1), (1000, 0), (-1000, 2)):
            self.assertEqual(self.merge((2, 0), sinks=np.array([float(sink)])), (expected, 0))


if __name__ == "__main__":
    unittest.main()
