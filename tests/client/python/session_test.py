"""Sessions: however a sequence is cut into steps, the answer is that of one request."""

import asyncio
import concurrent.futures
import gc
import itertools
import random
import signal
import unittest
import unittest.mock
import weakref

import attend
import numpy as np
from attend._proto import message_class
from support import FakeServer, Server, ServedTest, error_of, eventually, seeded


class SessionTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_steps_equal_one_request_bit_for_bit(self):
        x = seeded(9, 512)
        whole = self.client.attend(x, model="demo", causal=True).output
        with self.client.session(model="demo") as session:
            parts = [session.step(x[first:last]) for first, last in ((0, 4), (4, 5), (5, 9))]
        np.testing.assert_array_equal(np.concatenate([part.output for part in parts]), whole)
        self.assertEqual([part.length for part in parts], [4, 5, 9])

    def test_query_key_value_with_options_and_a_small_cache(self):
        q = seeded(6, 4, 16)
        heads = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 16}
        options = dict(window=3, return_weights=True, return_log_sum_exp=True, weights_top_k=2)
        whole = self.client.attend(query=q, key=q[:, :2], value=q[:, :2], causal=True, **options)
        with self.client.session(heads=heads, **options) as session:
            session.step(query=q[:5], key=q[:5, :2], value=q[:5, :2])
            last = session.step(query=q[5:], key=q[5:, :2], value=q[5:, :2])
        np.testing.assert_array_equal(last.output[0], whole.output[5])
        np.testing.assert_array_equal(last.weights[:, 0], whole.weights[0][:, 5])
        np.testing.assert_array_equal(last.log_sum_exp[:, 0], whole.log_sum_exp[0][:, 5])
        np.testing.assert_array_equal(last.top_weights.keys[:, 0], whole.top_weights[0].keys[:, 5])
        with self.client.session(heads=heads, cache_dtype="int8") as small:
            usage = small.step(query=q, key=q[:, :2], value=q[:, :2]).usage
        self.assertGreater(usage.cache_bytes, 0)

    def test_top_logits_of_texts(self):
        whole = self.client.attend(text="the cat sat", model="gpt2", model_output="last_logits").output[0]
        with self.client.session(model="gpt2") as session:
            step = session.step(text="the cat sat", top_logits=3)
        self.assertIsNone(step.output)
        self.assertEqual(step.tokens.tokens, ["[CLS]", "the", "cat", "sat", "[SEP]"])
        self.assertEqual(step.top_logits.ids, list(np.argsort(-whole, kind="stable")[:3]))
        np.testing.assert_array_equal(np.float32(step.top_logits.logits), whole[step.top_logits.ids])
        self.assertEqual([type(token) for token in step.top_logits.tokens], [bytes] * 3)
        self.assertAlmostEqual(step.top_logits.log_sum_exp, float(np.log(np.exp(np.float64(whole)).sum())), places=4)

    def test_an_interrupt_at_any_moment_leaves_a_client_that_works(self):
        moment = random.Random(1)
        interrupts = 0
        earlier = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, earlier)
        for _ in range(300):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, moment.uniform(1e-5, 4e-3))
                    with self.client.session(model="demo") as session:
                        for _ in range(5):
                            session.step(seeded(1, 512))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except (KeyboardInterrupt, RuntimeError):  # of Python's own locks, which an interrupt can unlock twice
                interrupts += 1
        self.assertGreater(interrupts, 0)
        with self.client.session(model="demo") as session:
            self.assertEqual(session.step(seeded(2, 512)).length, 2)

    def test_forks_go_their_own_way(self):
        with self.client.session(model="gpt2") as session:
            self.assertIsNone(session.prefill(token_ids=[1, 2, 3]).output)
            self.assertEqual((session.fork(), session.fork(), session.fork(1, 7)), (1, 2, 7))
            first = session.step(token_ids=[4], sequence=1, model_output="logits").output
            session.truncate(2, sequence=2)
            second = session.step(token_ids=[3, 4], sequence=2, model_output="logits").output
            np.testing.assert_array_equal(first[0], second[1])
            self.assertEqual(session.release(7).usage.sequences, 3)
            self.assertEqual(session.length, 3)  # sequence 0 is as it was
            self.assertEqual(session.step(token_ids=[5]).length, 4)
            self.assertEqual(session.length, 4)
            self.assertEqual(session.step(token_ids=np.array([[5, 6]])).length, 6)  # a list of one sequence
            with self.assertRaisesRegex(attend.InvalidArgument, "token_ids.lengths: .* one sequence, found 2"):
                session.step(token_ids=[[1], [2]])
            session.truncate(1)
            self.assertEqual(session.length, 1)

    def test_a_number_is_free_unless_its_sequence_exists(self):
        with self.client.session(model="gpt2") as session:
            for _ in range(3):
                with self.assertRaises(attend.NotFound):
                    session.fork(9)
            self.assertEqual(session.fork(), 1)
            with self.assertRaises(attend.AlreadyExists):
                session.fork(0, 1)
            with self.assertRaises(attend.InvalidArgument):
                session.fork(0, 0)
            with self.assertRaises(attend.NotFound):
                session.release(5)
            released = session._actions.release(1)  # by another thread, whose action waits for one before it
            self.assertEqual(session.fork(), 2)
            session._act(released)
            self.assertEqual(session.fork(), 1)

    def test_only_integers_name_sequences_and_lengths(self):
        with self.client.session(model="gpt2") as session:
            session.prefill(token_ids=[1, 2, 3])
            for name, act in (
                ("sequence", lambda: session.release(None)),
                ("sequence", lambda: session.release(True)),
                ("sequence", lambda: session.truncate(1, None)),
                ("length", lambda: session.truncate(None)),
                ("length", lambda: session.truncate(False)),
                ("sequence", lambda: session.fork("0")),
                ("sequence", lambda: session.fork(2**63)),
                ("new_sequence", lambda: session.fork(0, 5.5)),
                ("sequence", lambda: session.step(token_ids=[1], sequence=True)),
                ("top_logits", lambda: session.step(token_ids=[1], top_logits=1.5)),
            ):
                with self.assertRaisesRegex((TypeError, ValueError), f"^{name}: expected an integer"):
                    act()
            self.assertEqual(session.fork(np.int64(0)), 1, "no refusal takes a number")
            self.assertEqual(session.step(token_ids=[4]).length, 4)

    def test_the_lifetime_ends_a_session_and_is_named(self):
        for lifetime in (-1, 0, 1e12, float("inf"), float("nan")):
            with self.assertRaisesRegex(ValueError, "lifetime: expected positive seconds"):
                self.client.session(model="demo", lifetime=lifetime)
        session = self.client.session(model="demo", lifetime=0.5)
        self.assertTrue(eventually(lambda: session.broken is not None))
        with self.assertRaisesRegex(attend.DeadlineExceeded, "the session has ended with its lifetime of 0.5 s"):
            session.step(token_ids=[1])

    def test_a_resume_ttl_that_would_mean_none_is_refused(self):
        for resume_ttl, words in ((0.0001, "0.001 seconds and more"), (-1, "positive seconds"), ("60", "a number")):
            with self.assertRaisesRegex((TypeError, ValueError), f"resume_ttl: expected .*{words}"):
                self.client.session(model="demo", resume_ttl=resume_ttl)
        with self.client.session(model="demo", resume_ttl=0) as session:
            self.assertEqual(session.resume_token, "")

    def test_forks_of_many_threads_have_numbers_of_their_own(self):
        with self.client.session(model="gpt2") as session, concurrent.futures.ThreadPoolExecutor(8) as threads:
            self.assertEqual(sorted(threads.map(lambda _: session.fork(), range(40))), list(range(1, 41)))

    def test_a_refused_action_leaves_the_session_as_it_was(self):
        with self.client.session(model="gpt2") as session:
            session.prefill(token_ids=[1, 2])
            with self.assertRaisesRegex(attend.InvalidArgument, "truncate.length: expected 0 to 2, found 9"):
                session.truncate(9)
            with self.assertRaises(attend.AttendError):
                session.step(token_ids=[1], sequence=5)
            self.assertEqual(session.step(token_ids=[3]).length, 3)

    def test_a_step_that_is_too_large_leaves_the_session_as_it_was(self):
        server = Server("--max-message-bytes=100000")
        self.addCleanup(server.stop)
        with attend.Client(server.address) as client, client.session(model="demo") as session:
            self.assertEqual(session.max_message_bytes, 100000)
            session.prefill(seeded(40, 512))
            found = error_of(lambda: session.step(seeded(60, 512)))
            self.assertRegex(found, r"^ResourceExhausted: .*at most 100000 bytes \(the server's flag --max-message-bytes\), found 12")
            self.assertEqual(session.step(seeded(1, 512)).length, 41)

    def test_threads_share_a_session(self):
        x = seeded(20, 512)
        whole = self.client.attend(x, model="demo", causal=True).output

        def decode(sequence):
            return np.concatenate([session.step(x[i : i + 1], sequence=sequence).output for i in range(20)])

        with self.client.session(model="demo") as session:
            sequences = [0] + [session.fork() for _ in range(3)]
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                for output in threads.map(decode, sequences):
                    np.testing.assert_array_equal(output, whole)

    def test_a_broken_session_is_resumed(self):
        x = seeded(5, 512)
        whole = self.client.attend(x, model="demo", causal=True).output
        session = self.client.session(model="demo", resume_ttl=60)
        session.step(x[:3])
        self.assertEqual(session.fork(), 1)
        session.cancel()
        with self.assertRaises(attend.Cancelled):
            session.step(x[3:])
        self.assertTrue(eventually(lambda: self.client.get_statistics().parked_sessions == 1))
        with self.client.session(resume_token=session.resume_token) as resumed:
            self.assertEqual(resumed.length, 3)
            self.assertEqual(resumed.fork(), 2, "the first fork is there still")
            with self.assertRaises(attend.AlreadyExists):
                resumed.fork(0, 1)
            np.testing.assert_array_equal(resumed.step(x[3:]).output, whole[3:])
        with self.assertRaises(attend.FailedPrecondition):
            resumed.step(x)

    def test_a_resumed_session_has_the_options_of_before(self):
        q = seeded(2, 4, 16)
        with self.client.session(heads={"num_heads": 4, "head_dim": 16}, return_log_sum_exp=True, resume_ttl=60) as session:
            with self.client.session(resume_token=session.resume_token) as resumed:
                self.assertEqual(resumed.step(query=q, key=q, value=q).log_sum_exp.shape, (4, 2))
                session.cancel()

    def test_the_error_that_ended_a_session_does_not_grow(self):
        session = self.client.session(model="demo")
        session.cancel()
        x = seeded(1, 512)
        rows = weakref.ref(x)
        for _ in range(2):
            self.assertEqual(error_of(lambda: session.step(x)), "Cancelled: CANCELLED: the session was cancelled")
        self.assertIsNone(session.broken.__traceback__)
        del x
        gc.collect()
        self.assertIsNone(rows(), "the error keeps no request")
        huge = np.zeros((1 << 21, 512), np.float32)  # 4 GiB that nobody touches: not sent either
        with self.assertRaises(attend.Cancelled):
            session.step(huge)

    def test_what_cannot_be_opened_says_why(self):
        with self.assertRaisesRegex(attend.NotFound, 'found "nobody"'):
            self.client.session(model="nobody")

    def test_closing_frees_the_server(self):
        self.client.session(model="demo").close()
        self.assertTrue(eventually(lambda: self.client.get_statistics().sessions == 0))

    def test_a_session_that_nobody_has_any_more_frees_the_server(self):
        session = self.client.session(model="demo")
        session.step(seeded(1, 512))
        self.assertEqual(self.client.get_statistics().sessions, 1)
        del session
        gc.collect()
        self.assertTrue(eventually(lambda: self.client.get_statistics().sessions == 0))


class RefusedForkTest(unittest.TestCase):
    """A server that says of 20 numbers that they exist: none but the first few may be tried."""

    def setUp(self):
        def answer(_, __, context):
            yield message_class("DecodeResponse")(id=1, result={"usage": {}}).SerializeToString()
            for count, data in enumerate(context.requests):
                request = message_class("DecodeRequest").FromString(data)
                result = {"code": attend.AlreadyExists.code.value[0] if count < 20 else 0, "usage": {}}
                yield message_class("DecodeResponse")(id=request.id, result=result).SerializeToString()

        self.server = FakeServer(answer)
        self.addCleanup(self.server.stop)
        # Its time goes on with each look at the clock, from 0 to 300.
        self.clock = unittest.mock.Mock(monotonic=unittest.mock.Mock(side_effect=itertools.count(0, 50)))

    def fork(self, is_full=False):
        with attend.Client(self.server.address, timeout=300) as client, client.session(model="demo") as session:
            session._actions._sequences.update(range(65535 if is_full else 0))
            with unittest.mock.patch("attend.session.time", self.clock):
                session.fork()

    async def fork_async(self, is_full=False):
        async with attend.AsyncClient(self.server.address, timeout=300) as client, client.session(model="demo") as session:
            session._actions._sequences.update(range(65535 if is_full else 0))
            with unittest.mock.patch("attend.aio_session.time", self.clock):
                await session.fork()

    def test_all_attempts_have_one_deadline(self):
        with self.assertRaises(attend.AlreadyExists):
            self.fork()
        self.assertEqual(self.clock.monotonic.call_count, 7)

    def test_all_attempts_of_asyncio_have_one_deadline(self):
        with self.assertRaises(attend.AlreadyExists):
            asyncio.run(self.fork_async())
        self.assertEqual(self.clock.monotonic.call_count, 7)

    def test_no_number_is_tried_that_no_sequence_can_have(self):
        with self.assertRaises(attend.AlreadyExists):
            self.fork(is_full=True)
        with self.assertRaises(attend.AlreadyExists):
            asyncio.run(self.fork_async(is_full=True))


if __name__ == "__main__":
    unittest.main()
