"""The wire: what is sent and read is what protobuf means by it, and the plain classes leave nothing out."""

import dataclasses
import unittest

import numpy as np
from attend import _tensors, models
from attend._mirror import MIRRORS
from attend._proto import message_class
from attend._requests import attend_request
from attend._wire import MalformedMessage, Received
from support import seeded


class WireTest(unittest.TestCase):
    def test_requests_are_what_protobuf_reads(self):
        q, mask = seeded(3, 2, 4), np.tri(3, dtype=bool)
        data = attend_request(
            None, dict(query=q, key=q, value=q[..., :1], mask=mask, bias=mask.astype(np.float64), causal=True, sinks=[1.0, 2.0])
        ).encode()
        message = message_class("AttendRequest").FromString(data)
        wire = message.query_key_value
        self.assertEqual((list(wire.query.shape), wire.query.data), ([3, 2, 4], q.tobytes()))
        self.assertEqual((list(wire.value.shape), wire.value.data), ([3, 2, 1], q[..., :1].tobytes()))
        self.assertEqual((list(message.options.mask.shape), message.options.mask.data), ([1, 1, 3, 3], mask.tobytes()))
        self.assertEqual(message.options.bias.data, mask.astype(np.float32).tobytes())
        self.assertEqual((message.options.causal, list(message.options.sinks)), (True, [1.0, 2.0]))

    def test_answers_are_what_protobuf_wrote(self):
        tensor = {"dtype": 1, "shape": [2, 3], "data": seeded(2, 3).tobytes()}
        sent = message_class("AttendResponse")(
            output=tensor, weights=[tensor, {"dtype": 1, "shape": [0, 3]}], top_weights=[{"weights": tensor}],
            tokens=[{"ids": [300, 1], "tokens": ["a", "b"]}], summary={"batch_id": 2**63}
        )
        received = Received("AttendResponse", sent.SerializeToString())
        np.testing.assert_array_equal(_tensors.read(received, received.message.weights[0]), seeded(2, 3))
        self.assertEqual(_tensors.read(received, received.message.weights[1]).shape, (0, 3))
        np.testing.assert_array_equal(_tensors.read(received, received.message.top_weights[0].weights), seeded(2, 3))
        self.assertEqual((received.message.tokens, received.message.summary), (sent.tokens, sent.summary))

    def test_no_truncated_answer_is_read_as_another(self):
        tensor = {"dtype": 1, "shape": [2, 3], "data": seeded(2, 3).tobytes()}
        data = message_class("AttendResponse")(output=tensor).SerializeToString()
        for length in range(1, len(data)):
            with self.subTest(length), self.assertRaises(MalformedMessage):
                Received("AttendResponse", data[:length])

    def test_keys_that_protobuf_reads_as_others_are_refused(self):
        data = bytes([0x9A, 0x80, 0x80, 0x80, 0x10, 4]) + bytes(4)  # field 3 of Tensor, its data, plus 2^32
        with self.assertRaisesRegex(MalformedMessage, "field: expected a key of 32 bits, found 0x10000001a"):
            Received("AttendResponse", b"\x0a" + bytes([len(data)]) + data)

    def test_bf16_rounds_to_the_nearest_even_and_keeps_what_is_no_number(self):
        values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -1.01, np.inf, -np.inf, 3.4e38, np.nan, 0, 1e-40], np.float32)
        bits = _tensors._to_bf16_bits(values)
        widened = _tensors.give_home(bits, "BF16", None)
        expected = np.array([1, 1, 1 + 2**-6, -1.0078125, np.inf, -np.inf, np.inf, np.nan, 0], np.float32)
        np.testing.assert_array_equal(widened[:-1], expected)
        self.assertTrue(0 < widened[-1] < 2e-40)


class CompletenessTest(unittest.TestCase):
    def test_every_option_is_a_keyword(self):
        for message, keywords in (
            ("AttentionOptions", models.OptionKeywords),
            ("Rotary", models.RotaryKeywords),
            ("RmsNorm", models.RmsNormKeywords),
            ("SequenceOptions", models.SequenceKeywords),
            ("AttentionHeads", models.HeadsKeywords),
        ):
            fields = {field.name for field in message_class(message).DESCRIPTOR.fields}
            self.assertEqual(fields, set(keywords.__annotations__), message)

    def test_every_field_of_an_answer_is_there(self):
        for name, kind in MIRRORS.items():
            fields = {field.name for field in message_class(name).DESCRIPTOR.fields}
            self.assertEqual(fields, {field.name for field in dataclasses.fields(kind)}, name)


if __name__ == "__main__":
    unittest.main()
