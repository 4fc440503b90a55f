"""Arguments that are refused before anything is sent: what they are called, what was expected and what was found."""

import unittest

import attend
import numpy as np
from support import ServedTest, seeded


class ArgumentTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_requests_that_say_nothing_or_too_much_are_not_sent(self):
        x = seeded(2, 512)
        for error, words, request in (
            (ValueError, "input: expected one of .*; found none", dict(model="demo")),
            (ValueError, "found hidden_states and token_ids", dict(hidden_states=x, token_ids=[1], model="demo")),
            (ValueError, "model: expected a name", dict(hidden_states=x)),
            (ValueError, "key: expected rows beside query", dict(query=x)),
            (ValueError, "lengths: expected none beside a list", dict(hidden_states=[x], lengths=[2], model="demo")),
            (ValueError, "lengths: expected none beside a list .*, found 4", dict(hidden_states=[x], lengths=4, model="demo")),
            (ValueError, "differ in n only", dict(hidden_states=[x, x[:, :3]], model="demo")),
            (ValueError, "dtype: expected one of 'fp32', 'fp16', 'bf16', found 'int8'", dict(hidden_states=x, model="demo", dtype="int8")),
            (ValueError, "similarity: expected one of 'dot_product'", dict(hidden_states=x, model="demo", similarity="cosine")),
            (TypeError, "unexpected keyword argument 'casual'", dict(hidden_states=x, model="demo", casual=True)),
            (TypeError, "hidden_states: expected floating-point rows, found int64", dict(hidden_states=[[1, 2]], model="demo")),
            (TypeError, "token_ids: expected integers", dict(token_ids=[1.5], model="demo")),
            (ValueError, "timeout: expected positive", dict(hidden_states=x, model="demo", timeout=0)),
            (ValueError, "timeout: .* at most a year", dict(hidden_states=x, model="demo", timeout=1e10)),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                self.client.attend(**request)

    def test_wrong_arguments_are_named(self):
        q, heads = seeded(3, 2, 8), {"num_heads": 2, "head_dim": 8}
        for words, request in (
            ("token_ids: expected integers", dict(token_ids=5, model="demo")),
            ("token_ids: expected integers .* lists of several lengths", dict(token_ids=[1, [2]], model="demo")),
            ("token_ids: expected an integer of 32 bits, found 1099511627776", dict(token_ids=[2**40], model="demo")),
            ("type_ids: expected integers", dict(token_ids=[1], type_ids=5, model="demo")),
            ("type_ids: .* as long as those of token_ids", dict(token_ids=[[1, 2], [3]], type_ids=[[0], [1, 1]], model="demo")),
            ("text: expected a text, found int", dict(text=5, model="gpt2")),
            ("text: expected a text, found int", dict(text=["a", 5], model="gpt2")),
            ("hidden_states: expected rows of one length", dict(hidden_states=[[[1.0]], [[1.0], [2.0]]], model="demo")),
            ("model: expected a text", dict(token_ids=[1], model=5)),
            ("model_output: expected one of 'last_hidden_states'.*found 3", dict(token_ids=[1], model="gpt2", model_output=3)),
            ("layer: expected an integer, found '0'", dict(token_ids=[1], model="gpt2", layer="0")),
            ("layer: expected an integer, found False", dict(token_ids=[1], model="gpt2", layer=False)),
            ("weights_choice: expected a dict, found int", dict(token_ids=[1], model="gpt2", weights_choice=3)),
            ("weights_choice.layers: expected a list", dict(token_ids=[1], model="gpt2", weights_choice={"layers": 0})),
            ("dtype: expected one of .*float64", dict(hidden_states=q[0], model="demo", dtype=np.float64)),
            ("similarity: expected one of .*found 1", dict(query=q, key=q, value=q, similarity=1)),
            ("causal: expected True or False, found 'no'", dict(query=q, key=q, value=q, causal="no")),
            ("rotary: expected a dict, found bool", dict(query=q, key=q, value=q, rotary=True)),
            ("rotary.based: expected one of dim, base", dict(query=q, key=q, value=q, rotary={"based": 1})),
            ("rotary.scaling: expected one of", dict(query=q, key=q, value=q, rotary={"scaling": 3})),
            ("window: expected an integer of 64 bits", dict(query=q, key=q, value=q, window=2**63)),
            ("window: expected an integer, found 1.5", dict(query=q, key=q, value=q, window=1.5)),
            (r"sequences\[0\].window: expected an integer", dict(query=q, key=q, value=q, sequences=[{"window": "2"}])),
            ("scale: expected a number, found '1'", dict(query=q, key=q, value=q, scale="1")),
            ("alibi_slopes: expected a list, found 3", dict(query=q, key=q, value=q, alibi_slopes=3)),
            ("bias: expected numbers", dict(query=q, key=q, value=q, bias="x")),
            ("bias: expected numbers to add .* found bool .mask=", dict(query=q, key=q, value=q, bias=np.ones((2, 2), bool))),
            ("bias: expected numbers to add .* found complex64", dict(query=q, key=q, value=q, bias=np.ones((2, 2), np.complex64))),
            ("bias: expected an array without a mask", dict(query=q, key=q, value=q, bias=np.ma.masked_array([[0.5]], [[True]]))),
            ("mask: expected an array without a mask", dict(query=q, key=q, value=q, mask=np.ma.masked_array([[True]], [[True]]))),
            ("query: expected an array without a mask", dict(query=np.ma.masked_array(q, q > 0), key=q, value=q)),
            ("timeout: expected a number, found '5'", dict(token_ids=[1], model="demo", timeout="5")),
            ("metadata: expected a dict", dict(token_ids=[1], model="demo", metadata="a")),
            ("metadata.a: expected a text", dict(token_ids=[1], model="demo", metadata={"a": 1})),
            ("metadata: expected keys of", dict(token_ids=[1], model="demo", metadata={"a b": "1"})),
        ):
            with self.subTest(words), self.assertRaisesRegex((TypeError, ValueError), f"^{words}"):
                self.client.attend(**request)
        with self.assertRaisesRegex(TypeError, "model: expected a text"):
            self.client.get_model(5)
        with self.assertRaisesRegex(ValueError, "cache_dtype: expected one of 'fp32', 'bf16', 'int8', found 'f16'"):
            self.client.session(heads=heads, cache_dtype="f16")
        with self.assertRaisesRegex(ValueError, "heads.dtype: expected one of 'fp32', 'fp16', 'bf16', found 'int8'"):
            self.client.session(heads={**heads, "dtype": "int8"})

    def test_keywords_of_another_kind_of_input_are_refused(self):
        x, q = seeded(2, 512), seeded(3, 2, 8)
        rows, ids, text, heads = dict(hidden_states=x), dict(token_ids=[1]), dict(text="cat"), dict(query=q, key=q, value=q)
        for kind, name, request in (
            ("hidden_states", "kv_lengths", dict(rows, kv_lengths=[2])),
            ("hidden_states", "query_offsets", dict(rows, query_offsets=[0])),
            ("hidden_states", "key", dict(rows, key=q)),
            ("text", "lengths", dict(text, lengths=[1])),
            ("text", "type_ids", dict(text, type_ids=[0])),
            ("token_ids", "memory_lengths", dict(ids, memory_lengths=[1])),
            ("token_ids", "dtype", dict(ids, dtype="nonsense")),
            ("token_ids", "no_special_tokens", dict(ids, no_special_tokens=True)),
            ("query", "memory", dict(heads, memory=x)),
        ):
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"{name}: expected beside .* only, found beside {kind}"):
                self.client.attend(**request, model="demo")
        for name, request in (("memory_lengths", rows), ("lengths", dict(memory=x))):
            with self.assertRaisesRegex(TypeError, f"{name}: expected beside .* only, found without"):
                self.client.attend(**request, **{name: [2]}, model="demo")
        with self.client.session(model="gpt2") as session, self.assertRaisesRegex(TypeError, "type_ids: .*found beside text"):
            session.step(text="cat", type_ids=[0])

    def test_lists_of_batches_are_not_taken_for_lists_of_sequences(self):
        x, q = seeded(2, 5, 512), seeded(1, 5, 2, 8)
        with self.assertRaisesRegex(ValueError, r"hidden_states: expected sequences \[n, E\], found \[1, 5, 512\]"):
            self.client.attend([x[:1], x[1:]], model="demo")
        with self.assertRaisesRegex(ValueError, r"query: expected sequences \[n, H, D\], found \[1, 5, 2, 8\]"):
            self.client.attend(query=[q, q], key=[q, q], value=[q, q])
        with self.assertRaisesRegex(ValueError, r"value: expected sequences \[n, Hkv, Dv\], found \[1, 5, 2, 8\]"):
            self.client.attend(query=[q[0]], key=[q[0]], value=[q])

    def test_lists_that_share_their_lengths_have_the_same(self):
        x, q = seeded(5, 512), seeded(5, 2, 8)
        for value in ([q[:3], q[3:]], [q]):
            with self.assertRaisesRegex(ValueError, r"value: .* as long as those of key, \[2, 3\], found"):
                self.client.attend(query=[q[:2], q[2:]], key=[q[:2], q[2:]], value=value)
        with self.assertRaisesRegex(ValueError, r"value: .* as long as those of key, \[5\], found \[2, 3\]"):
            self.client.attend(query=q, key=q, value=[q[:2], q[2:]])
        with self.assertRaisesRegex(ValueError, r"memory_values: .* as long as those of memory, \[2, 3\], found \[3, 2\]"):
            self.client.attend([x, x], memory=[x[:2], x[2:]], memory_values=[x[:3], x[3:]], model="demo")
        packed = self.client.attend(query=q, key=q, value=q, lengths=[2, 3], kv_lengths=[2, 3]).output
        listed = self.client.attend(query=[q[:2], q[2:]], key=[q[:2], q[2:]], value=[q[:2], q[2:]]).output
        np.testing.assert_array_equal(packed, listed)

    def test_requests_that_grpc_would_cut_are_not_sent(self):
        rows = np.zeros((3 << 17, 2, 512), np.float32)  # memory that nobody touches
        request = dict(query=rows, key=rows, value=rows)
        for send in (self.client.attend, self.client.attend_stream):
            with self.assertRaisesRegex(ValueError, "request: expected less than 4294967296 bytes, found 48318[0-9]{5}"):
                send(**request)
        with self.client.session(heads={"num_heads": 2, "head_dim": 512}) as session:
            with self.assertRaisesRegex(ValueError, "request: expected less than 4294967296 bytes"):
                session.step(**request)
            self.assertEqual(session.step(query=rows[:1], key=rows[:1], value=rows[:1]).length, 1)

    def test_masks_of_numbers_are_refused(self):
        q, seen = seeded(6, 2, 16), np.tri(6, dtype=bool)
        expected = self.client.attend(query=q, key=q, value=q, mask=seen).output
        for mask in (seen.astype(np.int64), seen.tolist()):
            np.testing.assert_array_equal(self.client.attend(query=q, key=q, value=q, mask=mask).output, expected)
        for mask in (np.where(seen, 0, -np.inf), np.full((6, 6), np.nan), seen * 2, seen - 1, "x", [[1], [1, 0]]):
            with self.subTest(mask), self.assertRaisesRegex(TypeError, "mask: expected bool"):
                self.client.attend(query=q, key=q, value=q, mask=mask)
        with self.assertRaisesRegex(TypeError, "found float64 .bias= adds"):
            self.client.attend(query=q, key=q, value=q, mask=np.where(seen, 0, -np.inf))


if __name__ == "__main__":
    unittest.main()
