"""A server that does as it is told, behind a wire that can be cut."""

import concurrent.futures
import math
import socket
import struct
import threading
import time

import grpc

SERVICE = "/attention.v1.AttentionService/"
# FP32 [2, 4]: ordinary numbers, -0, the smallest, infinity, the most negative, a NaN with a payload.
OUTPUT = struct.pack("<8I", 0x3F800000, 0x80000000, 1, 0x7F800000, 0xFF7FFFFF, 0x7FC00001, 0x3EAAAAAB, 0xC2280000)
THREADS = 8  # more than there are calls and watches of a scenario at one time
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection
# Clients send a ping after 10 s, and wait 15 s for its answer. It comes after 7 s: gRPC's C core needs up to 5 s to read it.
HANG_SECONDS = 17


HEALTH = {"SERVING": bytes([8, 1]), "NOT_SERVING": bytes([8, 2])}  # a HealthCheckResponse


def _wait_for_end(context):
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait(600)


class Wire:
    """Forwards connections from `address` to a server."""

    def __init__(self, host, port=0):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.listen(16)
        self.host, self.port = self._listener.getsockname()
        self.target = None  # port on 127.0.0.1; None: nobody is there
        self._lock = threading.Lock()
        self._far_ends = []
        self._thaw = threading.Event()
        self._thaw.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Connections end, as when a process is killed."""
        with self._lock:
            far_ends, self._far_ends = self._far_ends, []
        for end in far_ends:  # what they have sent is still forwarded, then the near ends end, too
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself

    def freeze(self):
        """No byte passes any more, and nobody is told."""
        self._thaw.clear()

    def thaw(self):
        """What was frozen passes."""
        self._thaw.set()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thaw()
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target or 0))
            except OSError:  # nobody is there
                near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._far_ends.append(far)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                self._thaw.wait()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class ScriptedServer(grpc.GenericRpcHandler):
    """Answers each call by the next step of `script`, and well when there is none left:

    CODE [pushback=MS]   refuses            begin STEP   sends the first message of a stream, then does STEP
    stall                never answers      cut          its connections end
    joined               sends the answer to a step as joined parts
    twice                answers the opening of a session twice
    refuse CODE          answers each action on an open session with that code
    without FIELD        leaves a field out of its answers: output, summary, usage, ..., or all blocks of a stream of that name
    with FIELD           sends scores, rows or the largest logits that nobody asked for
    lone FIELD           sends the scores of that name of the first head only
    skipped FIELD        leaves the first block of that name out of a stream
    repeated FIELD       sends the first block of that name twice
    unfinished FIELD     leaves the last block of that name out of a stream
    empty top_logits     sends the largest logits, which nobody asked for, without any
    torn                 has a token without a text
    huge                 has a block so wide that the answer fits into no memory
    long                 has a row too many in its answer, or its block
    wide                 has rows that are too wide
    flat, deep           has blocks of one extent, of four extents
    short                ends a stream before its summary
    drain                goes away, and answers
    freeze               no byte passes its wire any more
    hang                 no byte passes its wire for HANG_SECONDS
    """

    def __init__(self, messages, host, script, health, is_there=True):
        self.calls = []  # names of methods
        self.requests = []  # first messages
        self._messages = messages
        self._script = script  # which servers may share
        self._health = health
        self._lock = threading.Lock()
        self.wire = Wire(host)
        self._server = None
        if is_there:
            self.start()

    def start(self):
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(THREADS), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        self.wire.target = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self):
        self.wire.target = None
        if self._server is not None:
            self.wire.cut()
            self._server.stop(None)
            self._server = None

    def close(self):
        self.stop()
        self.wire.close()

    def service(self, details):
        if details.method == "/grpc.health.v1.Health/Watch" and self._health:
            return grpc.unary_stream_rpc_method_handler(self._watch)
        if details.method == "/grpc.health.v1.Health/Check" and self._health:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: HEALTH[self._health])
        if not details.method.startswith(SERVICE):
            return None
        name = details.method[len(SERVICE) :]
        is_stream = name in ("AttendStream", "Decode")
        make = {
            "AttendStream": grpc.unary_stream_rpc_method_handler,
            "Decode": grpc.stream_stream_rpc_method_handler,
        }.get(name, grpc.unary_unary_rpc_method_handler)

        def answer(request, context):
            first = next(request) if name == "Decode" else request
            with self._lock:
                self.calls.append(name)
                self.requests.append(first)
                step = self._script.pop(0) if self._script else ""
            answers = self._decode(first, request, step) if name == "Decode" else iter(self._answers(name, first, step))
            return self._act(step, answers, context)

        return make(answer if is_stream else lambda request, context: next(answer(request, context)))

    def _act(self, step, answers, context):
        word, _, rest = step.partition(" ")
        if word == "begin":
            yield next(answers)
            word, _, rest = rest.partition(" ")
            if word == "cut":
                time.sleep(5)  # a client drops a message that it has not read before the end; slow machines read late
        if word == "cut":
            self.wire.cut()
        elif word == "freeze":
            self.wire.freeze()
        elif word == "hang":
            self.wire.freeze()
            time.sleep(HANG_SECONDS)
            self.wire.thaw()
        elif word == "drain":
            self._server.stop(600)
        if word in ("cut", "freeze", "stall"):
            _wait_for_end(context)
        if word and hasattr(grpc.StatusCode, word):
            if rest:
                context.set_trailing_metadata((("grpc-retry-pushback-ms", rest.partition("=")[2]),))
            context.abort(getattr(grpc.StatusCode, word), "as told")
        yield from answers

    def _watch(self, _, context):
        yield HEALTH[self._health]
        _wait_for_end(context)

    def _rows(self, shape, data=OUTPUT + OUTPUT):
        return {"dtype": 1, "shape": shape, "data": data[: 4 * math.prod(shape)]}

    def _scores(self, asked, step, head=None):
        """The scores that were asked for, of two rows and two keys: tables of two heads, or of one."""

        def table(kind, *columns, dtype=1):
            heads, size = 1 if step == f"lone {kind}" else 2, 4 * math.prod((2, *columns))
            if head is None:
                return {"dtype": dtype, "shape": [heads, 2, *columns], "data": OUTPUT[: heads * size]}
            return {"dtype": dtype, "shape": [2, *columns], "data": OUTPUT[head * size :][:size]}

        options = asked.options
        wanted = {"weights": options.return_weights, "log_sum_exp": options.return_log_sum_exp, "top_weights": options.weights_top_k}
        left_out = {kind: (f"without {kind}", f"lone {kind}" if head == 1 else None) for kind in wanted}
        top = {"weights": table("top_weights", 1), "keys": table("top_weights", 1, dtype=5)}
        tables = {"weights": table("weights", 2), "log_sum_exp": table("log_sum_exp"), "top_weights": top}
        return {kind: tables[kind] for kind in tables if (wanted[kind] or step == f"with {kind}") and step not in left_out[kind]}

    def _whole(self, asked, step):
        answer = {"summary": {}, **{kind: [table] for kind, table in self._scores(asked, step).items()}}
        if asked.HasField("text"):
            answer["output"] = self._rows([1, 4])
            answer["tokens"] = [{"ids": [5, 6], "tokens": ["the"] if step == "torn" else ["the", "cat"]}]
        elif asked.HasField("query_key_value"):
            answer["output"] = self._rows([2, 2, 1])
        else:
            answer["output"] = self._rows({"long": [1, 3, 4], "wide": [1, 2, 5]}.get(step, [1, 2, 4]))
        if asked.weights_choice.layers or step == "with layer_weights":
            answer["layer_weights"] = [{"layer": 1, "weights": self._rows([1, 2, 2])}]
        answer.pop(step.partition("without ")[2], None)
        return self._messages["AttendResponse"](**answer)

    def _blocks(self, asked, step):
        if step == "huge":
            blocks = [("rows", {"output": self._rows([1, 1 << 17], bytes(1 << 19))})]
        elif asked.HasField("text"):
            tokens = {"ids": [5, 6], "tokens": ["the"] if step == "torn" else ["the", "cat"]}
            blocks = [("tokens", {"tokens": tokens}), ("rows", {"output": self._rows([1, 4])})]
        elif asked.HasField("query_key_value"):
            shape = {"flat": [2], "deep": [1, 2, 1, 1]}.get(step, [1, 2, 1])
            blocks = [("rows", {"first_row": i, "output": self._rows(shape, OUTPUT[8 * i :])}) for i in range(2)]
        else:
            shape = {"long": [3, 4], "wide": [1, 5]}.get(step, [1, 4])
            blocks = [("rows", {"first_row": i, "output": self._rows(shape, OUTPUT[16 * i :] + OUTPUT)}) for i in range(2)]
        for head in range(2):
            blocks += [(kind, {"head": head, kind: table}) for kind, table in self._scores(asked, step, head).items()]
        if asked.weights_choice.layers or step == "with layer_weights":
            blocks.append(("layer_weights", {"layer": 1, "weights": self._rows([2, 2])}))
        word, _, field = step.partition(" ")
        places = [i for i, (kind, _) in enumerate(blocks) if kind == field]
        if word == "skipped":
            del blocks[places[0]]
        elif word == "repeated":
            blocks.insert(places[0], blocks[places[0]])
        elif word == "unfinished":
            del blocks[places[-1]]
        return [{kind: block} for kind, block in blocks if step != f"without {kind}"]

    def _answers(self, name, request, step):
        if name not in ("Attend", "AttendStream"):
            return [b""]
        asked = self._messages["AttendRequest"].FromString(request)
        if name == "Attend":
            return [self._whole(asked, step).SerializeToString()]
        blocks = self._blocks(asked, step) + ([] if step in ("short", "without summary") else [{"summary": {}}])
        return [self._messages["AttendStreamResponse"](**block).SerializeToString() for block in blocks]

    def _decode(self, first, requests, script_step):
        make = self._messages["DecodeResponse"]
        opened = self._messages["DecodeRequest"].FromString(first)
        answer = make(id=opened.id, result=self._result(opened, script_step)).SerializeToString()
        yield from [answer] * (2 if script_step == "twice" else 1)
        for data in requests:
            self.requests.append(data)
            action = self._messages["DecodeRequest"].FromString(data)
            word, _, code = script_step.partition(" ")
            if word == "refuse":
                number = getattr(grpc.StatusCode, code).value[0]
                yield make(id=action.id, result={"code": number, "message": "as told"}).SerializeToString()
                continue
            yield make(id=action.id, result=self._result(action, script_step), **self._parts(opened, action, script_step)).SerializeToString()

    def _result(self, action, step):
        result = {"length": 2, "usage": {"sequences": 1}}
        if action.HasField("step"):
            result["summary"] = {}
        if action.step.top_logits or (step == "with top_logits" and action.HasField("step")):
            result["top_logits"] = {"ids": [8, 7], "logits": [2.5, -1]}
        if step == "empty top_logits" and action.HasField("step"):
            result["top_logits"] = {}
        result.pop(step.partition("without ")[2], None)
        return result

    def _parts(self, opened, action, script_step):
        """The parts of the answer to an action: one message with rows, or joined parts."""
        step = action.step
        has_output = action.HasField("step") and not step.no_output and not step.top_logits
        if not has_output and script_step != "with rows":
            return {}
        if script_step == "long":
            return {"part": {"rows": {"output": self._rows([3, 4])}}}
        scores = [
            {kind: {"head": head, kind: table}} for head in range(2) for kind, table in self._scores(opened.open, script_step, head).items()
        ]
        shape = [2, 2, 1] if step.HasField("query_key_value") else [2, 4]
        if scores:
            return {"parts": [{"rows": {"output": self._rows(shape)}}, *scores]}
        if script_step == "joined":
            return {"parts": [{"rows": {"first_row": i, "output": self._rows([1, 4], OUTPUT[16 * i :])}} for i in range(2)]}
        return {"part": {"rows": {"output": self._rows(shape)}}}
