"""Makes the calls that run.py asks for, with the Python client. driver.py SITE: the folder where it is installed."""

import sys

sys.path.insert(0, sys.argv[1])

import attend  # noqa: E402
import numpy as np  # noqa: E402

ROWS = np.arange(1, 9, dtype=np.float32).reshape(1, 2, 4)


def session(client):
    with client.session(model="m") as opened:
        return opened.step(token_ids=[7, 8]).output


CALLS = {
    "attend": lambda client: client.attend(ROWS, model="m", causal=True).output,
    "attend_stream": lambda client: client.attend_stream(ROWS, model="m", causal=True).result().output,
    "text": lambda client: client.attend(
        text="the cat",
        no_special_tokens=True,
        model="m",
        model_version=3,
        model_output="mean_pooled",
        weights_choice={"layers": [1], "heads": [0]},
        window=2,
        scale=0.5,
    ).output,
    "session": session,
    "ready": lambda client: client.wait_until_ready(),
    "get_model": lambda client: client.get_model("m"),
    "load_model": lambda client: client.load_model("m"),
}


def answer(call, client):
    try:
        output = CALLS[call](client)
        return "OK " + (output.tobytes().hex() if isinstance(output, np.ndarray) else "-")
    except attend.AttendError as error:
        return f"{error.code.name} -"


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
