"""Embeds the texts of a folder with a model, and prints the nearest other text of each."""

import argparse
import pathlib

import attend
import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path, help="has at least two files *.txt")
parser.add_argument("--model", default="bert")
parser.add_argument("--server", default="127.0.0.1:8001")
parser.add_argument("--batch", type=int, default=32, help="texts of one request")
arguments = parser.parse_args()

files = sorted(arguments.folder.glob("*.txt"))
batches = []
with attend.Client(arguments.server) as client:
    for first in range(0, len(files), arguments.batch):
        texts = [file.read_text() for file in files[first : first + arguments.batch]]
        result = client.attend(text=texts, model=arguments.model, model_output="mean_pooled")
        batches.append(result.output)  # [texts, d_model]

embeddings = np.concatenate(batches)
embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
similarity = embeddings @ embeddings.T
np.fill_diagonal(similarity, -1)
for file, row in zip(files, similarity):
    print(f"{file.name} is nearest to {files[row.argmax()].name} (cosine {row.max():.3f})")
