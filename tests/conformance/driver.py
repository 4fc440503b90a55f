"""Makes the calls that run.py asks for, with the Python client. driver.py SITE: the folder where it is installed."""

import sys

sys.path.insert(0, sys.argv[1])

import attend  # noqa: E402
import numpy as np  # noqa: E402

ROWS = {"hidden_states": np.arange(1, 9, dtype=np.float32).reshape(1, 2, 4), "model": "m", "causal": True}
TEXT = {
    "text": "the cat",
    "no_special_tokens": True,
    "model": "m",
    "model_version": 3,
    "model_output": "mean_pooled",
    "weights_choice": {"layers": [1], "heads": [0]},
    "window": 2,
    "scale": 0.5,
}
HEADS = dict.fromkeys(("query", "key", "value"), np.arange(1, 5, dtype=np.float32).reshape(2, 2, 1))
ALL_SCORES = {"return_weights": True, "return_log_sum_exp": True, "weights_top_k": 1}
HUGE = {"hidden_states": np.zeros((1 << 31, 0), np.float32), "model": "m", "model_output": "logits"}


def scores(result):
    """The arrays of an answer, or of a step's."""
    listed = [table if isinstance(table, list) else [table] for table in (result.weights, result.log_sum_exp, result.top_weights)]
    weights, sums, top = ([table for table in tables if table is not None] for tables in listed)
    layers = [layer.weights for layer in getattr(result, "layer_weights", [])]
    return [result.output, *weights, *sums, *(array for one in top for array in (one.weights, one.keys)), *layers]


def rows(client, **request):
    return [block.rows for block in client.attend_stream(**request, assemble=False) if isinstance(block, attend.RowBlock)]


def session(client):
    with client.session(model="m") as opened:
        return scores(opened.step(token_ids=[7, 8]))


def session_scores(client):
    with client.session(heads={"num_heads": 2, "head_dim": 1}, **ALL_SCORES) as opened:
        return scores(opened.step(**HEADS))


def branches(client):
    with client.session(model="m") as opened:
        opened.fork(0, 1)
        top = opened.step(token_ids=[7, 8], sequence=1, top_logits=2).top_logits
        quiet = opened.prefill(token_ids=[7, 8], sequence=1)
        cut, released = opened.truncate(2, 1), opened.release(1)
    lengths = [quiet.length, cut.length, released.usage.sequences]
    return [np.array(top.ids, np.int32), np.array(top.logits, np.float32), np.array(lengths, np.int32)]


CALLS = {
    "attend": lambda client: scores(client.attend(**ROWS)),
    "attend_stream": lambda client: scores(client.attend_stream(**ROWS).result()),
    "text": lambda client: scores(client.attend(**TEXT)),
    "text_stream": lambda client: scores(client.attend_stream(**TEXT).result()),
    "scores": lambda client: scores(client.attend(**HEADS, **ALL_SCORES)),
    "scores_stream": lambda client: scores(client.attend_stream(**HEADS, **ALL_SCORES).result()),
    "rows": lambda client: rows(client, **HEADS, **ALL_SCORES),
    "huge_rows": lambda client: rows(client, **HUGE),
    "huge": lambda client: scores(client.attend_stream(**HUGE).result()),
    "session": session,
    "session_scores": session_scores,
    "branches": branches,
    "ready": lambda client: client.wait_until_ready(),
    "get_model": lambda client: client.get_model("m"),
    "load_model": lambda client: client.load_model("m"),
}


def answer(call, client):
    try:
        arrays = CALLS[call](client)
        known = isinstance(arrays, list) and all(isinstance(array, np.ndarray) for array in arrays)
        return "OK " + ("".join(array.tobytes().hex() for array in arrays) if known and arrays else "-")
    except attend.AttendError as error:
        return f"{error.code.name} {error.message}"


def open_client(server, timeout, retries, token):
    try:
        token = None if token == "-" else token
        return attend.Client(server, timeout=float(timeout), retries=retries == "1", token=token), "OK"
    except attend.AttendError as error:
        return None, error.code.name
    except ValueError:
        return None, "REFUSED"


def main():
    client = None
    for line in sys.stdin:
        call, *arguments = line.split()
        if call == "open":
            client, said = open_client(*arguments)
        elif call == "close":
            said = "OK"
            if client:
                client.close()
        else:
            said = answer(call, client)
        print(said, flush=True)


if __name__ == "__main__":
    main()
