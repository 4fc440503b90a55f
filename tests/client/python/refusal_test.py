"""What the server refuses, and the deadline of a call."""

import unittest

import attend
import grpc
import numpy as np
from support import ServedTest, Server, seeded


class RefusalTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_the_servers_words_under_the_codes_class(self):
        x = seeded(2, 3)
        with self.assertRaises(attend.InvalidArgument) as caught:
            self.client.attend(x, model="demo")
        self.assertEqual(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(caught.exception.message, "hidden_states.tensor.shape: expected rows of 512, found [2, 3]")
        self.assertEqual(str(caught.exception), f"INVALID_ARGUMENT: {caught.exception.message}")
        with self.assertRaises(attend.NotFound):
            self.client.attend(x, model="demo", model_version=7)
        with attend.Client(self.server.admin) as admin, self.assertRaises(attend.FailedPrecondition):
            admin.unload_model("demo")

    def test_tensors_of_too_few_extents_are_the_servers_to_refuse(self):
        row, number = np.ones(16, np.float32), np.float32(3)
        for call in [
            lambda: self.client.attend_stream(query=row, key=row, value=row).result(),
            lambda: self.client.attend_stream(number, model="demo").result(),
        ]:
            with self.assertRaisesRegex(attend.InvalidArgument, "shape: expected"):
                call()
        with self.client.session(model="demo", layer=0) as session:
            with self.assertRaisesRegex(attend.InvalidArgument, "shape: expected"):
                session.step(number)
            session.step(seeded(1, 512))

    def test_deadlines_are_those_of_the_call(self):
        # gRPC rounds up to a millisecond, in which a small request may be answered, or a large one refused.
        with self.assertRaisesRegex(attend.DeadlineExceeded, "(no answer within|refused with a timeout of) 1e-06 s"):
            self.client.attend(seeded(8000, 512), model="demo", timeout=1e-6)

    def test_request_ids_come_back(self):
        with self.assertRaises(attend.NotFound) as caught:
            self.client.attend(token_ids=[1], model="nobody", metadata={"X-Request-Id": "abc-1"})
        self.assertEqual(caught.exception.trailers["x-request-id"], "abc-1")

    def test_messages_past_the_servers_limit_name_its_flag(self):
        server = Server("--max-message-bytes=10000")
        self.addCleanup(server.stop)
        with attend.Client(server.address) as client:
            with self.assertRaisesRegex(attend.ResourceExhausted, "--max-message-bytes"):
                client.attend(seeded(20, 512), model="demo")

    def test_sessions_past_the_servers_limit_are_refused(self):
        server = Server("--max-sessions=1")
        self.addCleanup(server.stop)
        with attend.Client(server.address) as client, client.session(model="demo"):
            with self.assertRaises(attend.ResourceExhausted):
                client.session(model="demo")


class HeaderTest(ServedTest):
    def test_too_many_headers_name_the_flag(self):
        with attend.Client(self.server.address) as client:
            with self.assertRaisesRegex(attend.ResourceExhausted, "the server's flag --max-header-bytes"):
                client.list_models(metadata={"x": "y" * 100_000})


if __name__ == "__main__":
    unittest.main()
