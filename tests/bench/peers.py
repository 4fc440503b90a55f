"""Measures what a user would pick instead, beside attend-kernel-bench and `attend bench`.

  peers.py kernels [THREADS]                     attention and the layer in PyTorch and ONNX Runtime
  peers.py serve torch|ort PORT D_MODEL HEADS    a hand-written server of ModelInfer over one of them, one compute thread

Needs python3 with numpy, torch, onnx, onnxruntime and grpcio; `serve` also the messages of the Open Inference Protocol on
PYTHONPATH (protoc -Iproto/inference --python_out=DIR open_inference.proto). Pin each program to a core (taskset) and take
the two sides in turn; compare_servers.py does that.
"""

import concurrent.futures
import os
import statistics
import sys
import time

import numpy as np

# Batch, length, d_model and heads, or heads and width of a head; causal or not.
LAYERS = [
    (1, 128, 768, 12, False),
    (8, 128, 768, 12, False),
    (1, 512, 768, 12, False),
    (1, 512, 768, 12, True),
    (1, 2048, 1024, 16, False),
    (1, 2048, 1024, 16, True),
]
ATTENTION = [
    (1, 128, 12, 64, False),
    (8, 128, 12, 64, False),
    (1, 512, 12, 64, False),
    (1, 512, 12, 64, True),
    (1, 2048, 12, 64, True),
    (1, 2048, 16, 64, True),
    (1, 1024, 32, 128, True),
]


def median_ms(call, seconds=1.0):
    call()
    call()
    times = []
    end = time.time() + seconds
    while time.time() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def report(who, name, flop, ms):
    print(f"{who:12} {name:40} {ms:9.3f} ms {flop / ms / 1e6:8.1f} GFLOP/s", flush=True)


def ort_session(nodes, inputs, initializers, threads):
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "S", "E"])

    graph = helper.make_graph(nodes, "layer", [value(n) for n in inputs], [value("y")], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda **feeds: session.run(None, feeds)[0]


def ort_layer(d_model, heads, causal, threads):
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)

    def weights(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / d_model**0.5).astype(np.float32), name)

    parts = [weights("w", d_model, 3 * d_model), weights("b", 3 * d_model), weights("o", d_model, d_model), weights("c", d_model)]
    nodes = [
        helper.make_node("Attention", ["x", "w", "b"], ["a"], domain="com.microsoft", num_heads=heads, unidirectional=int(causal)),
        helper.make_node("MatMul", ["a", "o"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["y"]),
    ]
    return ort_session(nodes, ["x"], parts, threads)


def ort_attention(heads, causal, threads):
    from onnx import helper

    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=heads, unidirectional=int(causal))
    return ort_session([node], ["q", "k", "v"], [], threads)


def torch_layer(d_model, heads, causal, seq_len, dtype):
    import torch

    layer = torch.nn.MultiheadAttention(d_model, heads, batch_first=True).eval().to(dtype)
    mask = torch.triu(torch.ones(seq_len, seq_len, dtype=torch.bool), 1) if causal else None
    return lambda x: layer(x, x, x, need_weights=False, attn_mask=mask, is_causal=causal)[0]


def kernels(threads):
    import torch

    torch.set_num_threads(threads)
    rng = np.random.default_rng(1)
    dtypes = ((torch.float32, "f32"), (torch.bfloat16, "bf16"))
    for batch, seq_len, heads, width, causal in ATTENTION:
        suffix = f"B{batch}_S{seq_len}_H{heads}_D{width}" + ("/causal" if causal else "")
        flop = 4 * batch * heads * seq_len**2 * width * (0.5 if causal else 1)
        for dtype, label in dtypes:
            q, k, v = (torch.randn(batch, heads, seq_len, width, dtype=dtype) for _ in range(3))
            attend = torch.nn.functional.scaled_dot_product_attention
            with torch.inference_mode():
                report("torch", f"attention/{label}/" + suffix, flop, median_ms(lambda: attend(q, k, v, is_causal=causal)))
        run = ort_attention(heads, causal, threads)
        feeds = {n: rng.standard_normal((batch, seq_len, heads * width), dtype=np.float32) for n in "qkv"}
        report("onnxruntime", "attention/f32/" + suffix, flop, median_ms(lambda: run(**feeds)))
    for batch, seq_len, d_model, heads, causal in LAYERS:
        suffix = f"B{batch}_S{seq_len}_E{d_model}_H{heads}" + ("/causal" if causal else "")
        flop = batch * (8 * seq_len * d_model**2 + 4 * seq_len**2 * d_model * (0.5 if causal else 1))
        x = rng.standard_normal((batch, seq_len, d_model), dtype=np.float32)
        run = ort_layer(d_model, heads, causal, threads)
        report("onnxruntime", "layer/f32/" + suffix, flop, median_ms(lambda: run(x=x)))
        for dtype, label in dtypes:
            layer = torch_layer(d_model, heads, causal, seq_len, dtype)
            t = torch.from_numpy(x).to(dtype)
            with torch.inference_mode():
                report("torch", f"layer/{label}/" + suffix, flop, median_ms(lambda: layer(t)))


def serve(kind, port, d_model, heads):
    import grpc

    if kind == "torch":
        import torch

        torch.set_num_threads(1)
        layer = torch_layer(d_model, heads, False, 1, torch.float32)

        def run(x):
            with torch.inference_mode():
                return layer(torch.from_numpy(x)).numpy()
    else:
        session = ort_layer(d_model, heads, False, 1)

        def run(x):
            return session(x=x)

    import open_inference_pb2 as pb

    def infer(request, context):
        shape = tuple(request.inputs[0].shape)
        y = np.ascontiguousarray(run(np.frombuffer(request.raw_input_contents[0], np.float32).reshape(shape)))
        output = pb.ModelInferResponse.InferOutputTensor(name="output", datatype="FP32", shape=y.shape)
        return pb.ModelInferResponse(
            model_name=request.model_name, id=request.id, outputs=[output], raw_output_contents=[y.tobytes()]
        )

    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(4),
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    method = grpc.unary_unary_rpc_method_handler(
        infer, pb.ModelInferRequest.FromString, pb.ModelInferResponse.SerializeToString
    )
    handler = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": method})
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments = sys.argv[2:]
    if sys.argv[1:2] == ["kernels"]:
        kernels(int(arguments[0]) if arguments else 1)
    elif sys.argv[1:2] == ["serve"] and len(arguments) == 4:
        serve(arguments[0], int(arguments[1]), int(arguments[2]), int(arguments[3]))
    else:
        sys.exit(__doc__)
