"""Answers that do not hold together."""

import time
import unittest
import unittest.mock

import attend
import numpy as np
from attend._proto import message_class
from support import FakeServer, eventually


class MalformedAnswerTest(unittest.TestCase):
    def answers(self, *messages):
        fake = FakeServer(lambda *_: list(messages))
        self.addCleanup(fake.stop)
        client = attend.Client(fake.address)
        self.addCleanup(client.close)
        return client

    def rows(self, **block):
        shape = block.pop("shape", [1, 4])
        data = bytes(4 * shape[0] * shape[1])
        output = message_class("Tensor")(dtype=1, shape=shape, data=data)
        return message_class("AttendStreamResponse")(rows={"output": output, **block}).SerializeToString()

    def test_bytes_that_are_no_message(self):
        for data in (b"\xff", b"\x0a\x7f", b"\x0a\x05\x12\x01\x02\x1a\x09"):
            with self.subTest(data), self.assertRaisesRegex(attend.Internal, "malformed answer"):
                self.answers(data).attend(token_ids=[1], model="demo")

    def test_tensors_that_lie_about_their_size(self):
        wrapping = ([2**32, 2**32], [0, 2**62, 8], [0, 2**61])
        for shape in ([2, 2], [-1, -4], [2**62, 4], [1] * 40, [], *wrapping):
            tensor = {"dtype": 1, "shape": shape, "data": b"" if shape in wrapping else b"1234"}
            answer = message_class("AttendResponse")(output=tensor).SerializeToString()
            with self.subTest(shape), self.assertRaisesRegex(attend.Internal, "malformed answer: tensor"):
                self.answers(answer).attend(token_ids=[1], model="demo")

    def test_outputs_of_other_rows(self):
        for shape in ([1], [2, 2], [3, 1, 2]):
            answer = self.answer(shape)
            with self.subTest(shape), self.assertRaisesRegex(attend.Internal, r"answer: output: expected \[3, any\], found"):
                self.answers(answer).attend(token_ids=[1, 2, 3], model="demo")
        for shape in ([1, 2, 3], [1, 2], [1, 2, 8, 1], [2, 8]):
            answer = self.answer(shape)
            with self.subTest(shape), self.assertRaisesRegex(attend.Internal, r"answer: output: expected \[1, 2, 8\], found"):
                self.answers(answer).attend(np.zeros((1, 2, 8), np.float32), model="demo")

    def answer(self, shape):
        tensor = {"dtype": 1, "shape": shape, "data": bytes(4 * int(np.prod(shape)))}
        return message_class("AttendResponse")(output=tensor).SerializeToString()

    def test_answers_to_lengths_that_do_not_fit_the_rows(self):
        for shape, lengths, words in (
            ((2, 3, 4), [1], r"2 of 0 to 3, found \[1\]"),
            ((2, 3, 4), [1, 2, 3], r"2 of 0 to 3, found \[1, 2, 3\]"),
            ((2, 3, 4), [1, 4], r"2 of 0 to 3, found \[1, 4\]"),
            ((2, 3, 4), [-1, 2], r"2 of 0 to 3, found \[-1, 2\]"),
            ((3, 4), [1, 1], r"a sum of 3, found \[1, 1\]"),
            ((3, 4), [4, -1], r"a sum of 3, found \[4, -1\]"),
        ):
            asked = {"hidden_states": np.zeros(shape, np.float32), "lengths": lengths, "model": "demo"}
            words = f"malformed answer: lengths that the server took: expected {words}"
            with self.subTest(words), self.assertRaisesRegex(attend.Internal, words):
                self.answers(self.answer(shape)).attend(**asked)
            with self.subTest(words, stream=True), self.assertRaisesRegex(attend.Internal, words):
                self.answers(self.rows()).attend_stream(**asked).result()

    def test_parts_of_an_answer_that_do_not_fit_what_was_asked(self):
        def tensor(shape, dtype=1):
            return {"dtype": dtype, "shape": shape, "data": bytes((1 if dtype == 4 else 4) * int(np.prod(shape)))}

        output, weights, two = tensor([2, 4]), tensor([1, 2, 2]), {"token_ids": [1, 2]}
        top = {"weights": tensor([1, 2, 1]), "keys": tensor([1, 2, 1])}
        chosen = {**two, "weights_choice": {"layers": [0], "heads": [0, 1]}}
        for words, asked, answer in (
            ("dtype of a tensor: expected FP32 or FP16 or BF16, found INT32", two, {"output": tensor([2, 4], 5)}),
            ("number of tables of weights: expected 1, found 0", {**two, "return_weights": True}, {}),
            ("number of tables of weights: expected 0, found 1", two, {"weights": [weights]}),
            (r"weights: expected \[any, 2, any\], found \[1, 1, 2\]", {**two, "return_weights": True}, {"weights": [tensor([1, 1, 2])]}),
            ("number of tables of log_sum_exp: expected 1, found 2", {**two, "return_log_sum_exp": True}, {"log_sum_exp": [tensor([1, 2])] * 2}),
            (r"log_sum_exp: expected \[any, 2\], found \[2\]", {**two, "return_log_sum_exp": True}, {"log_sum_exp": [tensor([2])]}),
            ("dtype of a tensor: expected INT32, found FP32", {**two, "weights_top_k": 1}, {"top_weights": [top]}),
            ("number of tables of layer_weights: expected 1, found 0", chosen, {}),
            (r"layer_weights\[0\]: expected layer 0 of sequence 0, found layer 7 of sequence 0", chosen,
             {"layer_weights": [{"layer": 7, "weights": weights}]}),
            (r"layer_weights: expected \[2, any, any\], found \[1, 2, 2\]", chosen, {"layer_weights": [{"weights": weights}]}),
            ("number of lists of tokens: expected 2, found 1", {"text": ["a", "b"]}, {"tokens": [{"ids": [1, 2]}]}),
            ("number of lists of tokens: expected 0, found 1", two, {"tokens": [{"ids": [1, 2]}]}),
        ):
            data = message_class("AttendResponse")(**{"output": output, **answer}).SerializeToString()
            with self.subTest(words), self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                self.answers(data).attend(model="demo", **asked)

    def test_scores_have_the_heads_of_the_query(self):
        def tensor(*shape, dtype=1):
            return {"dtype": dtype, "shape": shape, "data": bytes(4 * int(np.prod(shape)))}

        rows = np.zeros((3, 8, 2), np.float32)
        asked = {"query": rows, "key": rows, "value": rows}
        options = {"return_weights": True, "return_log_sum_exp": True, "weights_top_k": 2}
        whole = {
            "output": tensor(3, 8, 2),
            "weights": [tensor(8, 3, 3)],
            "log_sum_exp": [tensor(8, 3)],
            "top_weights": [{"weights": tensor(8, 3, 2), "keys": tensor(8, 3, 2, dtype=5)}],
            "summary": {},
        }
        self.answers(message_class("AttendResponse")(**whole).SerializeToString()).attend(**asked, **options)
        for kind, one_head, shape, option in (
            ("weights", tensor(1, 3, 3), "3, any", {"return_weights": True}),
            ("log_sum_exp", tensor(1, 3), "3", {"return_log_sum_exp": True}),
            ("top_weights", {"weights": tensor(1, 3, 2), "keys": tensor(1, 3, 2, dtype=5)}, "3, any", {"weights_top_k": 2}),
        ):
            answer = message_class("AttendResponse")(output=tensor(3, 8, 2), **{kind: [one_head]}).SerializeToString()
            words = rf"malformed answer: {kind}: expected \[8, {shape}\], found \[1, "
            with self.subTest(kind), self.assertRaisesRegex(attend.Internal, words):
                self.answers(answer).attend(**asked, **option)
        blocks = [{"log_sum_exp": {"log_sum_exp": tensor(3), "head": head}} for head in range(9)]
        stream = [message_class("AttendStreamResponse")(**one).SerializeToString() for one in blocks]
        with self.assertRaisesRegex(attend.Internal, "malformed answer: sequence and head of log_sum_exp: expected head 0 to 7, found 0, 8"):
            self.answers(*stream).attend_stream(**asked, return_log_sum_exp=True).result()
        blocks = [{"rows": {"output": tensor(3, 8, 2)}}, blocks[0]]
        words = r"malformed answer: log_sum_exp of a sequence: expected 8 heads of 3 rows, found \[3\]"
        stream = [message_class("AttendStreamResponse")(**one).SerializeToString() for one in [*blocks, {"summary": {}}]]
        with self.assertRaisesRegex(attend.Internal, words):
            self.answers(*stream).attend_stream(**asked, return_log_sum_exp=True).result()
        decoded = [{"id": 1, "result": {"usage": {}}}, {"id": 2, "parts": blocks, "result": {"length": 3, "usage": {}}}]
        steps = [message_class("DecodeResponse")(**one).SerializeToString() for one in decoded]
        session = self.decoding(*steps).session(heads={"num_heads": 8, "head_dim": 2}, return_log_sum_exp=True)
        with self.assertRaisesRegex(attend.Internal, words):
            session.step(**asked)

    def test_messages_after_the_summary(self):
        summary = message_class("AttendStreamResponse")(summary={}).SerializeToString()
        for answers in ([self.rows(), summary, self.rows(first_row=1)], [self.rows(), summary, summary]):
            stream = self.answers(*answers).attend_stream(token_ids=[1], model="demo")
            with self.assertRaisesRegex(attend.Internal, "malformed answer: message of a stream: expected none after the summary"):
                stream.result()

    def test_largest_weights_with_keys_of_another_shape(self):
        weights, keys = ({"dtype": dtype, "shape": [1, 2, n], "data": bytes(8 * n)} for dtype, n in ((1, 3), (5, 2)))
        output = {"dtype": 1, "shape": [2, 4], "data": bytes(32)}
        answer = message_class("AttendResponse")(output=output, top_weights=[{"weights": weights, "keys": keys}])
        words = r"keys of the largest weights: expected \[1, 2, 3\], found \[1, 2, 2\]"
        with self.assertRaisesRegex(attend.Internal, words):
            self.answers(answer.SerializeToString()).attend(token_ids=[1, 2], model="demo", layer=0, weights_top_k=3)

    def test_blocks_of_other_forms_end_streams_and_sessions(self):
        def part(kind, shape, **place):
            tensor = {"dtype": 1, "shape": shape, "data": bytes(4 * int(np.prod(shape, dtype=object)))}
            field = {"rows": "output", "log_sum_exp": "log_sum_exp"}.get(kind, "weights")
            return {kind: {field: tensor, **place}}

        rows, weights = part("rows", [3, 4]), part("weights", [3, 3])
        for words, parts in (
            ("number of extents of a block: expected 2 or 3, found 1", [part("rows", [3])]),
            ("number of extents of a block: expected 1, found 2", [rows, part("log_sum_exp", [3, 1])]),
            ("number of extents of a block: expected 2, found 3", [rows, part("weights", [3, 3, 1])]),
            ("tensor .*: expected 1 to 4 extents", [part("rows", [])]),
            (r"rows of a block: expected \[2, 4\], found \[2, 5\]", [part("rows", [1, 4]), part("rows", [2, 5], first_row=1)]),
            ("rows of a block: expected at least 1, found 0", [part("rows", [0, 4])]),
            ("rows of a block of weights: expected at least 1, found 0", [rows, part("weights", [0, 9])]),
            (r"width of weights: expected \(3,\), found \(2,\)", [rows, part("weights", [1, 3]), part("weights", [2, 2], first_row=1)]),
            (r"width of weights: expected \(3,\), found \(2,\)", [rows, weights, part("weights", [3, 2], head=1)]),
            ("rows of weights: expected from 3 of 3, found 1 from 3", [weights, part("weights", [1, 3], first_row=3)]),
            ("rows of weights: expected from 0 of 3, found 4 from 0", [part("weights", [4, 3])]),
            ("block of scores: expected one of a kind that was asked for, found log_sum_exp", [part("log_sum_exp", [3])]),
        ):
            stream = [message_class("AttendStreamResponse")(**one).SerializeToString() for one in parts]
            stream.append(message_class("AttendStreamResponse")(summary={}).SerializeToString())
            with self.subTest(words), self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                self.answers(*stream).attend_stream(token_ids=[1, 2, 3], model="demo", return_weights=True).result()
            decoded = [{"id": 1, "result": {"usage": {}}}, *({"id": 2, "part": one} for one in parts), {"id": 2, "result": {"length": 3, "usage": {}}}]
            steps = [message_class("DecodeResponse")(**one).SerializeToString() for one in decoded]
            with self.subTest(words, session=True):
                session = self.decoding(*steps).session(model="demo", return_weights=True)
                with self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                    session.step(token_ids=[1, 2, 3])
                self.assertIsInstance(session.broken, attend.Internal)

    def test_steps_have_the_logits_and_the_parts_that_they_ask_for(self):
        def parts(kind, shape):
            return {"parts": [{kind: {kind if kind == "log_sum_exp" else "output": {"dtype": 1, "shape": shape, "data": bytes(8)}}}]}

        def top(ids, logits):
            return {"result": {"usage": {}, "top_logits": {"ids": range(ids), "logits": [0] * logits}}}

        rows, one = parts("rows", [1, 2]), {"top_logits": 1}
        for words, asked, answer in (
            ("top_logits: expected 1 to 1 ids and as many logits, found 0 and 0", one, {}),
            ("top_logits: expected 1 to 1 ids and as many logits, found 0 and 0", one, top(0, 0)),
            ("top_logits: expected 1 to 1 ids and as many logits, found 2 and 2", one, top(2, 2)),
            ("top_logits: expected 1 to 3 ids and as many logits, found 2 and 1", {"top_logits": 3}, top(2, 1)),
            ("top_logits: expected 1 to 3 ids and as many logits, found 1 and 2", {"top_logits": 3}, top(1, 2)),
            ("top_logits: expected no ids and as many logits, found 1 and 1", {}, {**rows, **top(1, 1)}),
            ("top_logits: expected no ids and as many logits, found 1 and 1", {"no_output": True}, top(1, 1)),
            ("parts of a step without output: expected tokens only, found RowBlock", one, {**rows, **top(1, 1)}),
            ("parts of a step without output: expected tokens only, found RowBlock", {"no_output": True}, rows),
            ("parts of a step without output: expected tokens only, found LogSumExpBlock", {"no_output": True}, parts("log_sum_exp", [2])),
        ):
            decoded = [{"id": 1, "result": {"usage": {}}}, {"id": 2, "result": {"usage": {}}, **answer}]
            session = self.decoding(*(message_class("DecodeResponse")(**one).SerializeToString() for one in decoded)).session(model="demo")
            with self.subTest(words, asked=asked):
                with self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                    session.step(token_ids=[1], **asked)
                self.assertIsInstance(session.broken, attend.Internal)

    def test_rows_too_wide_for_the_memory(self):
        stream = self.answers(self.rows()).attend_stream(token_ids=[1], model="demo")
        words = "malformed answer: width of a block: expected one that fits into memory"
        with unittest.mock.patch("attend._answers.np.zeros", side_effect=MemoryError):
            with self.assertRaisesRegex(attend.Internal, words):
                stream.result()

    def decoding(self, opened, *step):
        """A client of a server that has answers to the opening of a session and to its first step."""

        def answer(_, __, context):
            yield opened
            next(context.requests)
            yield from step
            while context.is_active():
                time.sleep(0.01)

        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        client = attend.Client(fake.address)
        self.addCleanup(client.close)
        return client

    def test_health_that_is_no_message(self):
        with self.assertRaisesRegex(attend.Internal, "malformed answer"):
            self.answers(b"\xff\xff\xff").check_health()

    def test_blocks_out_of_order(self):
        for block in (dict(first_row=1), dict(sequence=1), dict(sequence=-1), dict(shape=[2, 4])):
            with self.subTest(block), self.assertRaisesRegex(attend.Internal, "malformed answer"):
                self.answers(self.rows(**block)).attend_stream(token_ids=[1], model="demo").result()

    def test_streams_that_end_early(self):
        with self.assertRaisesRegex(attend.Internal, "summary: expected one, found none"):
            self.answers(self.rows()).attend_stream(token_ids=[1], model="demo").result()

    def test_sessions_whose_stream_ends(self):
        with self.assertRaisesRegex(attend.Internal, "ended before its last answer"):
            self.answers().session(model="demo")

    def test_an_answer_to_no_action_ends_the_session(self):
        for number in (0, 2):

            answer = message_class("DecodeResponse")(id=number, result={"usage": {}}).SerializeToString()
            words = f"id: expected that of an action under way, found {number}"
            with self.subTest(number), self.assertRaisesRegex(attend.Internal, words):
                self.answers(answer).session(model="demo", timeout=300)

    def test_a_second_answer_to_an_action_ends_the_session(self):
        answers = [
            message_class("DecodeResponse")(id=number, result={"length": length, "usage": {}, "summary": {}}).SerializeToString()
            for number, length in ((1, 0), (2, 1), (2, 9))
        ]
        for is_interrupted in (False, True):
            with self.subTest(is_interrupted=is_interrupted):
                session = self.decoding(*answers).session(model="demo")
                if is_interrupted:
                    with unittest.mock.patch("attend.session.Mailbox.get", side_effect=KeyboardInterrupt):
                        with self.assertRaises(KeyboardInterrupt):
                            session.prefill(token_ids=[1])
                else:
                    self.assertEqual(session.prefill(token_ids=[1]).length, 1)
                self.assertTrue(eventually(lambda: session.broken is not None))
                self.assertIsInstance(session.broken, attend.Internal)
                self.assertEqual(session.broken.message, "malformed answer: id: expected that of an action under way, found 2")
                self.assertEqual(session.length, 1)

    def test_an_action_without_an_answer_ends_the_session(self):
        opened = message_class("DecodeResponse")(id=1, result={"usage": {}}).SerializeToString()

        def answer(_, __, context):
            yield opened
            while context.is_active():
                time.sleep(0.01)

        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        with attend.Client(fake.address) as client:
            session = client.session(model="demo")
            session._timeout = 0.1  # from here on there is no answer
            with self.assertRaisesRegex(attend.DeadlineExceeded, "no answer within 0.1 s"):
                session.step(token_ids=[1])
            with self.assertRaises(attend.DeadlineExceeded):
                session.step(token_ids=[1])


if __name__ == "__main__":
    unittest.main()
