"""Streamed answers are unary ones in pieces."""

import unittest
import unittest.mock

import attend
import numpy as np
from support import ServedTest, seeded


class StreamTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def assert_same(self, streamed, whole):
        np.testing.assert_array_equal(streamed.output, whole.output)
        self.assertEqual((streamed.lengths, streamed.output.dtype), (whole.lengths, whole.output.dtype))
        self.assertEqual(streamed.tokens, whole.tokens)
        for name in ("weights", "log_sum_exp"):
            self.assertEqual(len(getattr(streamed, name)), len(getattr(whole, name)))
            for a, b in zip(getattr(streamed, name), getattr(whole, name)):
                np.testing.assert_array_equal(a, b)
        self.assertEqual(len(streamed.top_weights), len(whole.top_weights))
        for a, b in zip(streamed.top_weights, whole.top_weights):
            np.testing.assert_array_equal(a.weights, b.weights)
            np.testing.assert_array_equal(a.keys, b.keys)
        self.assertEqual(len(streamed.layer_weights), len(whole.layer_weights))
        for a, b in zip(streamed.layer_weights, whole.layer_weights):
            self.assertEqual((a.layer, a.sequence), (b.layer, b.sequence))
            np.testing.assert_array_equal(a.weights, b.weights)

    def test_equals_unary_bit_for_bit(self):
        everything = dict(causal=True, return_weights=True, return_log_sum_exp=True, weights_top_k=3)
        q = [seeded(n, 2, 16, seed=n) for n in (5, 1, 3)]
        x = seeded(2, 5, 512)
        for request in (
            dict(hidden_states=x, model="demo", **everything),
            dict(hidden_states=x, model="demo", lengths=[2, 5], dtype="bf16"),
            dict(hidden_states=[x[0], x[1, :1]], model="demo", **everything),
            dict(query=q, key=q, value=q, **everything),
            dict(token_ids=[[1, 2, 3], [4]], model="gpt2", model_output="logits"),
            dict(token_ids=[[1, 2, 3], [4]], model="gpt2", model_output="last_logits"),
            dict(text=["the cat", "sat"], model="gpt2", weights_choice={"layers": [0, 1], "heads": [1, 2]}),
        ):
            with self.subTest(request=sorted(request)):
                self.assert_same(self.client.attend_stream(**request).result(), self.client.attend(**request))

    def test_no_rows_are_those_of_the_unary_answer(self):
        everything = dict(return_weights=True, return_log_sum_exp=True, weights_top_k=3)
        q, k = seeded(0, 8, 16), seeded(5, 8, 16)
        for request in (
            dict(query=q, key=q, value=q[..., :4], **everything),
            dict(query=[q, q], key=[q, k], value=[q, k], **everything),
            dict(query=q.astype(np.float16), key=k.astype(np.float16), value=k.astype(np.float16), **everything),
            dict(hidden_states=np.zeros((2, 3, 512), np.float16), lengths=[0, 0], model="demo"),
            dict(hidden_states=np.zeros((1, 0, 36), np.float32), model="gpt2", model_output="mean_pooled"),
        ):
            streamed, whole = self.client.attend_stream(**request).result(), self.client.attend(**request)
            with self.subTest(sorted(request)):
                self.assertEqual(streamed.output.shape, whole.output.shape)
                self.assert_same(streamed, whole)
                for name in ("weights", "log_sum_exp"):
                    self.assertEqual(*([one.shape for one in getattr(result, name)] for result in (streamed, whole)))
                self.assertEqual(*([one.keys.shape for one in result.top_weights] for result in (streamed, whole)))

    def test_without_rows_nothing_tells_the_width_and_the_heads_of_a_model(self):
        result = self.client.attend_stream(token_ids=[[], []], model="gpt2", weights_choice={"layers": [0]}).result()
        self.assertEqual((result.output.shape, [one.weights.shape for one in result.layer_weights]), ((0, 0), [(0, 0, 0)] * 2))
        result = self.client.attend_stream(token_ids=[[], []], model="demo", return_weights=True).result()
        self.assertEqual([one.shape for one in result.weights], [(0, 0, 0)] * 2)

    def test_blocks_come_in_row_order_and_end_with_the_summary(self):
        q = seeded(3000, 4, 64)  # 3 MB: several blocks
        stream = self.client.attend_stream(query=q, key=q[:64], value=q[:64], assemble=False)
        self.assertIsNone(stream.summary)
        next_row = 0
        blocks = list(stream)
        for block in blocks:
            self.assertIsInstance(block, attend.RowBlock)
            self.assertEqual((block.sequence, block.first_row), (0, next_row))
            next_row += len(block.rows)
        self.assertEqual(next_row, 3000)
        self.assertGreater(len(blocks), 2)
        self.assertEqual(stream.summary.batch_tokens, 3000)
        with self.assertRaises(attend.FailedPrecondition):
            stream.result()

    def test_what_is_left_of_a_cancelled_stream_does_not_come(self):
        q = seeded(3000, 4, 64)
        with self.client.attend_stream(query=q, key=q[:64], value=q[:64]) as stream:
            next(stream)
        for _ in range(2):
            with self.assertRaises(attend.Cancelled):
                stream.result()
        self.assertTrue(self.client.check_health())

    def test_a_stream_that_was_interrupted_is_cancelled(self):
        stream = self.client.attend_stream(seeded(1, 512), model="demo")

        def interrupted(_):
            raise KeyboardInterrupt

        with unittest.mock.patch("attend.client.next_message", interrupted), self.assertRaises(KeyboardInterrupt):
            next(stream)
        for _ in range(2):
            with self.assertRaises(attend.Cancelled):
                stream.result()

    def test_a_failed_stream_fails_again(self):
        stream = self.client.attend_stream(seeded(1, 512), model="nobody")
        for _ in range(2):
            with self.assertRaises(attend.NotFound):
                next(stream)


if __name__ == "__main__":
    unittest.main()
