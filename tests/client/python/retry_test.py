"""Which calls are made again, when, and with what token."""

import pathlib
import tempfile
import time
import unittest

import attend
import grpc
from attend._proto import message_class
from support import FakeServer


class RetryTest(unittest.TestCase):
    """Against a server that fails as it is told to."""

    def client_of(self, answer, **options):
        self.fake = FakeServer(answer)
        self.addCleanup(self.fake.stop)
        client = attend.Client(self.fake.address, **options)
        self.addCleanup(client.close)
        return client

    def failing(self, code, times, pushback=None):
        def answer(_, __, context):
            if len(self.fake.calls) <= times:
                if pushback is not None:
                    context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
                context.abort(code, "as told")
            return [message_class("ListModelsResponse")().SerializeToString()]

        return answer

    def test_unavailable_is_tried_again(self):
        self.assertEqual(self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 2)).list_models(), [])
        self.assertEqual(len(self.fake.calls), 3)

    def test_only_so_often(self):
        for retries, attempts in ((True, 5), (False, 1)):
            with self.assertRaisesRegex(attend.Unavailable, "as told"):
                self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 9), retries=retries).list_models()
            self.assertEqual(len(self.fake.calls), attempts)

    def test_resource_exhausted_is_tried_again_when_the_server_says_when(self):
        self.assertEqual(self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 2, "1")).list_models(), [])
        with self.assertRaises(attend.ResourceExhausted):
            self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1)).list_models()
        self.assertEqual(len(self.fake.calls), 1)

    def test_the_pause_is_kept_though_the_client_is_connected(self):
        client = self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 2, "300"))
        begin = time.monotonic()
        client.list_models()
        self.assertGreaterEqual(time.monotonic() - begin, 0.6)

    def test_not_when_that_is_past_the_deadline(self):
        client = self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1, "60000"), timeout=10)
        with self.assertRaises(attend.ResourceExhausted) as caught:
            client.list_models()
        self.assertEqual((caught.exception.retry_after, len(self.fake.calls)), (60, 1))

    def test_nothing_else_is_tried_again(self):
        for code in grpc.StatusCode:
            if code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE):
                continue
            with self.subTest(code), self.assertRaises(attend.AttendError) as caught:
                self.client_of(self.failing(code, 1)).list_models()
            self.assertEqual((caught.exception.code, len(self.fake.calls)), (code, 1))

    def test_streams_are_tried_again_until_they_begin(self):
        def answer(_, __, context):
            if len(self.fake.calls) < 3:
                context.abort(grpc.StatusCode.UNAVAILABLE, "as told")
            rows = {"output": {"dtype": 1, "shape": [1, 4], "data": bytes(16)}}
            yield message_class("AttendStreamResponse")(rows=rows).SerializeToString()
            context.abort(grpc.StatusCode.UNAVAILABLE, "too late")

        stream = self.client_of(answer).attend_stream(token_ids=[1], model="demo")
        self.assertEqual(next(stream).rows.shape, (1, 4))
        with self.assertRaisesRegex(attend.Unavailable, "too late"):
            next(stream)
        self.assertEqual(len(self.fake.calls), 3)

    def test_tokens_are_asked_for_with_each_call(self):
        seen = []

        def answer(_, metadata, __):
            seen.append((metadata["authorization"], metadata["attend-priority"]))
            return [b""]

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "token"
            client = self.client_of(answer, token=attend.token_from_file(path), metadata={"attend-priority": "low"})
            for token in ("first\n", "second"):
                path.write_text(token)
                client.list_models()
        self.assertEqual(seen, [("Bearer first", "low"), ("Bearer second", "low")])

    def test_an_empty_token_is_none(self):
        seen = []

        def answer(_, metadata, __):
            seen.append(metadata.get("authorization"))
            return [b""]

        for token in ("", " ", lambda: "\n", lambda: None):
            self.client_of(answer, token=token).list_models()
        self.assertEqual(seen, [None] * 4)
        attend.Client("example.invalid:8001", token="").close()


if __name__ == "__main__":
    unittest.main()
