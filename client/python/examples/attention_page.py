"""Writes a page that shows which token of a text attends to which, in one layer, as the mean of its heads."""

import argparse
import html
import pathlib

import attend

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("text")
parser.add_argument("--model", default="gpt2")
parser.add_argument("--layer", type=int, default=0)
parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("attention.html"))
parser.add_argument("--server", default="127.0.0.1:8001")
arguments = parser.parse_args()

with attend.Client(arguments.server) as client:
    result = client.attend(text=arguments.text, model=arguments.model, weights_choice={"layers": [arguments.layer]})
weights = result.layer_weights[0].weights.mean(axis=0)  # [rows, keys]
tokens = [html.escape(token) for token in result.tokens[0].tokens]

head = "".join(f"<th>{token}</th>" for token in tokens)
lines = [f"<tr><th></th>{head}</tr>"]
for token, row in zip(tokens, weights):
    cells = "".join(f'<td style="background: rgb(30 100 200 / {weight:.3f})">{weight:.2f}</td>' for weight in row)
    lines.append(f"<tr><th>{token}</th>{cells}</tr>")
table = "\n".join(lines)
arguments.output.write_text(f'<!DOCTYPE html><meta charset="utf-8"><title>Attention</title>\n<table>\n{table}\n</table>\n')
print(f"wrote {arguments.output}: rows attend to columns")
