"""Continues a text in a session: the server keeps keys and values, so that each step costs one token."""

import argparse

import attend

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("prompt")
parser.add_argument("--model", default="gpt2")
parser.add_argument("--tokens", type=int, default=20)
parser.add_argument("--server", default="127.0.0.1:8001")
arguments = parser.parse_args()

with attend.Client(arguments.server) as client:
    with client.session(model=arguments.model) as session:
        step = session.step(text=arguments.prompt, top_logits=1)
        for _ in range(arguments.tokens):
            print(step.top_logits.tokens[0].decode(errors="replace"), end=" ", flush=True)
            step = session.step(token_ids=step.top_logits.ids[:1], top_logits=1)
        print(f"\n{step.length} tokens in the session, {step.usage.cache_bytes} bytes of keys and values")
