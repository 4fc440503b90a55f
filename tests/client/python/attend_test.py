"""Answers: against attention in plain numpy, and against each other."""

import unittest

import attend
import numpy as np
from support import ServedTest, eventually, plain_attention, relative_error, seeded

F32, BF16 = 6e-7, 1.2e-2  # relative; BF16 counts the rounding of what goes in too

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class AttendTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_agrees_with_numpy(self):
        q, k, v = seeded(2, 7, 4, 16), seeded(2, 9, 2, 16, seed=2), seeded(2, 9, 2, 8, seed=3)
        result = self.client.attend(query=q, key=k, value=v, causal=True)
        self.assertEqual((result.output.shape, result.output.dtype), ((2, 7, 4, 8), np.float32))
        for b in range(2):
            self.assertLess(relative_error(result.output[b], plain_attention(q[b], k[b], v[b], causal=True)), F32)

    def test_lists_of_sequences_are_packed_and_come_back_as_lists(self):
        q = [seeded(n, 2, 16, seed=n) for n in (5, 1, 3)]
        k = [seeded(n, 2, 16, seed=n + 9) for n in (6, 4, 3)]
        result = self.client.attend(query=q, key=k, value=k)
        self.assertEqual((result.output.shape, result.lengths), ((9, 2, 16), [5, 1, 3]))
        for rows, query, key in zip(result.split(), q, k):
            self.assertLess(relative_error(rows, plain_attention(query, key, key)), F32)

    def test_what_the_caller_says_of_rounding_does_not_matter(self):
        x = seeded(3, 512).astype(np.float64)
        x[0, 0] = 1e-300
        q = seeded(2, 1, 16)
        hiding = np.float64([[0, np.finfo(np.float64).min], [0, 0]])
        with np.errstate(all="raise"):
            for dtype in (None, "fp16", "bf16"):
                self.assertEqual(self.client.attend(x, model="demo", dtype=dtype).output.shape, (3, 512))
            hidden = self.client.attend(query=q, key=q, value=q, bias=hiding).output
        self.assertLess(relative_error(hidden[0], q[0]), F32)

    def test_padding_is_cut_off_by_split(self):
        x = seeded(2, 5, 512)
        result = self.client.attend(x, model="demo", lengths=[5, 2])
        self.assertEqual([rows.shape for rows in result.split()], [(5, 512), (2, 512)])
        self.assertFalse(result.output[1, 2:].any())
        single = self.client.attend(x[1, :2], model="demo")
        np.testing.assert_array_equal(result.split()[1], single.output)

    def test_answers_own_their_memory(self):
        output = self.client.attend(seeded(3, 512), model="demo").output
        self.assertTrue(output.flags.writeable and output.flags.aligned and output.flags.c_contiguous)

    def test_rows_need_not_be_contiguous(self):
        x = seeded(512, 6).T[::2]
        expected = self.client.attend(np.ascontiguousarray(x), model="demo").output
        np.testing.assert_array_equal(self.client.attend(x, model="demo").output, expected)

    def test_weights_log_sum_exp_and_largest_weights(self):
        q = seeded(6, 2, 16)
        result = self.client.attend(
            query=q, key=q, value=q, return_weights=True, return_log_sum_exp=True, weights_top_k=2
        )
        logits = np.einsum("nhd,mhd->hnm", q.astype(np.float64), q) / 4
        np.testing.assert_allclose(result.log_sum_exp[0], np.log(np.exp(logits).sum(-1)), rtol=1e-5)
        np.testing.assert_allclose(result.weights[0].sum(-1), 1, rtol=1e-5)
        top = result.top_weights[0]
        np.testing.assert_array_equal(top.keys[..., 0], result.weights[0].argmax(-1))
        np.testing.assert_array_equal(np.take_along_axis(result.weights[0], top.keys, -1), top.weights)

    def test_answers_show_shapes_not_numbers(self):
        q = seeded(2, 7, 4, 16)
        shown = repr(self.client.attend(query=q, key=q, value=q, weights_top_k=2))
        self.assertLess(len(shown), 1000)
        self.assertIn("AttendResult(output=float32[2, 7, 4, 16], lengths=[7, 7], ", shown)
        self.assertIn("top_weights=[TopWeights(weights=float32[4, 7, 2], keys=int32[4, 7, 2]), ", shown)

    def test_bias_and_mask_of_every_rank(self):
        q, bias = seeded(6, 2, 16), seeded(6, 6, seed=4)
        for rank in (2, 3, 4):
            shaped = bias.reshape((1,) * (rank - 2) + bias.shape)
            result = self.client.attend(query=q, key=q, value=q, bias=shaped)
            self.assertLess(relative_error(result.output, plain_attention(q, q, q, bias=bias)), F32)
        masked = self.client.attend(query=q, key=q, value=q, mask=np.tri(6, dtype=bool))
        causal = self.client.attend(query=q, key=q, value=q, causal=True)
        np.testing.assert_array_equal(masked.output, causal.output)

    def test_options_that_are_messages_and_enumerations(self):
        q = seeded(6, 2, 16)
        turned = self.client.attend(query=q, key=q, value=q, rotary={"dim": 8, "scaling": "linear", "factor": 2.0})
        plain = self.client.attend(query=q, key=q, value=q)
        self.assertGreater(relative_error(turned.output, plain.output), 1e-3)
        box = self.client.attend(query=q, key=q, value=q, similarity="box", bandwidth=1e9)
        self.assertLess(relative_error(box.output, np.broadcast_to(q.mean(0, dtype=np.float64), q.shape)), F32)
        normed = self.client.attend(query=q, key=q, value=q, query_norm={"weight": np.ones(16)}, key_norm={"epsilon": 1})
        self.assertGreater(relative_error(normed.output, plain.output), 1e-3)
        each = self.client.attend(query=[q, q], key=[q, q], value=[q, q], sequences=[{"causal": True}, {}])
        causal = self.client.attend(query=q, key=q, value=q, causal=True)
        np.testing.assert_array_equal(each.split()[0], causal.output)
        np.testing.assert_array_equal(each.split()[1], plain.output)

    def test_float32_travels_as_bf16_and_comes_back_float32(self):
        q = seeded(32, 2, 16)
        result = self.client.attend(query=q, key=q, value=q, dtype="bf16")
        self.assertEqual(result.output.dtype, np.float32)
        error = relative_error(result.output, plain_attention(q, q, q))
        self.assertTrue(1e-4 < error < BF16, error)

    def test_dtypes_have_names_of_numpy_too(self):
        q = seeded(8, 2, 16)
        expected = self.client.attend(query=q, key=q, value=q, dtype="fp16").output
        for dtype in (np.float16, np.dtype(np.float16), "float16", "FP16"):
            np.testing.assert_array_equal(self.client.attend(query=q, key=q, value=q, dtype=dtype).output, expected)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_bf16_of_ml_dtypes_comes_back_as_such(self):
        q = seeded(32, 2, 16)
        narrow = q.astype(ml_dtypes.bfloat16)
        result = self.client.attend(query=narrow, key=narrow, value=narrow)
        self.assertEqual(result.output.dtype, ml_dtypes.bfloat16)
        widened = self.client.attend(query=q, key=q, value=q, dtype="bf16")
        np.testing.assert_array_equal(result.output.astype(np.float32), widened.output)

    def test_half_precision_and_double_precision(self):
        q = seeded(8, 2, 16)
        half = self.client.attend(query=q.astype(np.float16), key=q.astype(np.float16), value=q.astype(np.float16))
        self.assertEqual(half.output.dtype, np.float16)
        self.assertLess(relative_error(half.output, plain_attention(q, q, q)), 2e-3)
        big_endian = self.client.attend(query=q.astype(">f2"), key=q.astype(">f2"), value=q.astype(">f2"))
        self.assertEqual(big_endian.output.dtype, np.float16)
        np.testing.assert_array_equal(big_endian.output, half.output)
        double = self.client.attend(query=q.astype(np.float64), key=q, value=q)
        self.assertEqual(double.output.dtype, np.float32)

    def test_texts_tokens_and_what_a_stack_leaves(self):
        text = self.client.attend(text=["the cat sat", "on the mat"], model="gpt2", model_output="logits")
        self.assertEqual([t.tokens for t in text.tokens], [["[CLS]", "the", "cat", "sat", "[SEP]"]] * 1 + [
            ["[CLS]", "on", "the", "mat", "[SEP]"]])
        ids = self.client.attend(token_ids=[t.ids for t in text.tokens], model="gpt2", model_output="logits")
        np.testing.assert_array_equal(text.output, ids.output)
        last = self.client.attend(token_ids=np.array([t.ids for t in text.tokens]), model="gpt2", model_output="last_logits")
        self.assertEqual(last.output.shape, (2, text.output.shape[1]))
        np.testing.assert_array_equal(last.split()[1], text.split()[1][-1])
        bare = self.client.attend(text="the cat sat", model="gpt2", no_special_tokens=True)
        self.assertEqual(bare.tokens[0].tokens, ["the", "cat", "sat"])

    def test_layers_and_weights_of_a_run(self):
        model = self.client.get_model("gpt2")
        whole = self.client.attend(token_ids=[1, 2, 3], model="gpt2", weights_choice={"layers": [0, 1], "heads": [2]})
        self.assertEqual([(w.layer, w.sequence, w.weights.shape) for w in whole.layer_weights],
                         [(0, 0, (1, 3, 3)), (1, 0, (1, 3, 3))])
        layer = self.client.attend(seeded(4, model.d_model), model="gpt2", layer=1, model_version=model.version)
        self.assertEqual(layer.output.shape, (4, model.d_model))

    def test_what_servers_say_of_themselves(self):
        models = {model.name: model for model in self.client.list_models()}
        self.assertEqual((models["demo"].seed, models["gpt2"].seed), (1, None))
        self.assertEqual((models["demo"].dtype, len(models["gpt2"].layers)), ("FP32", models["gpt2"].num_layers))
        self.assertGreater(models["demo"].limits.max_tokens, 0)
        self.assertTrue(self.client.check_health() and self.client.check_health("model/gpt2"))
        before = self.client.get_statistics()
        self.client.attend(token_ids=[1], model="demo")
        self.assertTrue(eventually(lambda: self.client.get_statistics().succeeded > before.succeeded))

    def test_models_are_unloaded_and_loaded(self):
        with attend.Client(self.server.admin) as admin:
            (state,) = admin.unload_model("gpt2")
            self.assertEqual((state.phase, state.serving), ("UNLOADED", False))
            with self.assertRaises(attend.NotFound):
                self.client.get_model("gpt2")
            (state,) = admin.load_model("gpt2", 1)
            self.assertEqual((state.phase, state.serving), ("READY", True))
            self.assertEqual([state.name for state in admin.reload_models()], ["gpt2"])
            self.assertEqual(admin.verify_model("gpt2").weights_dtype, "fp32")
            self.assertEqual(admin.list_model_states()[0].name, "gpt2")

    def test_logging_is_changed(self):
        with attend.Client(self.server.admin) as admin:
            before = admin.set_logging()
            self.assertEqual(admin.set_logging("error", "all"), attend.Logging("ERROR", "ALL"))
            self.assertEqual(admin.set_logging(before.level, before.requests), before)


class PrefixCacheTest(ServedTest):
    flags = ["--prefix-cache-bytes=1000000"]

    def test_summaries_count_the_tokens_of_the_servers_cache(self):
        ids = list(range(1, 21))
        with attend.Client(self.server.address) as client, client.session(model="gpt2") as session:
            summaries = [client.attend(token_ids=ids, model="gpt2").summary for _ in range(2)]
            summaries.append(client.attend_stream(token_ids=ids, model="gpt2").result().summary)
            summaries.append(session.step(token_ids=ids).summary)
        self.assertEqual([summary.cached_tokens for summary in summaries], [0, 19, 19, 19])


if __name__ == "__main__":
    unittest.main()
