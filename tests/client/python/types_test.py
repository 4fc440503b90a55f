"""What editors and mypy see of the installed package."""

import inspect
import pathlib
import subprocess
import sys
import tempfile
import unittest

import attend

SITE = pathlib.Path(attend.__file__).parents[1]
USAGE = """
import attend
import numpy as np

client = attend.Client("127.0.0.1:8001", retries=False)
result = client.attend(np.ones((2, 512)), model="m", causal=True, rotary={"base": 5e5})
width: int = result.output.shape[-1]
client.attend(np.ones((5, 512)), model="m", lengths=np.array([3, 2]))
client.attend(model="m", token_ids=[np.arange(3), np.arange(2)])
client.session(model="m", cache_dtype=np.int8).close()
with client.session(model="m", cache_dtype="bf16") as session:
    step = session.step(token_ids=[1], top_logits=3)
client.attend(model="m", sinks=np.ones(2), metadata={"a-bin": b"1", "b": "2"})
client.attend(model="m", casual=True)  # error
client.attend(model=3)  # error
result.output.nothing  # error
"""


def mypy(*arguments):
    command = [sys.executable, "-m", "mypy", "--strict", "--enable-incomplete-feature=Unpack", *arguments]
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [*command, f"--cache-dir={cache}", "--no-error-summary"],
            capture_output=True, text=True, timeout=1200, env={"MYPYPATH": str(SITE), "PATH": "/usr/bin"},
        )
    return result.stdout + result.stderr


class TypesTest(unittest.TestCase):
    def test_the_package_and_its_use_are_typed_strictly(self):
        with tempfile.TemporaryDirectory() as folder:
            usage = pathlib.Path(folder) / "usage.py"
            usage.write_text(USAGE)
            config = pathlib.Path(folder) / "mypy.ini"
            config.write_text("[mypy]\n[mypy-grpc.*,google.protobuf.*,ml_dtypes]\nignore_missing_imports = True\n")
            said = mypy(f"--config-file={config}", "-p", "attend")
            self.assertEqual([line for line in said.splitlines() if " error: " in line], [], said)
            said = mypy(f"--config-file={config}", str(usage))
        wrong = [i for i, line in enumerate(USAGE.splitlines(), 1) if line.endswith("# error")]
        found = [int(line.split(":")[1]) for line in said.splitlines() if " error: " in line]
        self.assertEqual(found, wrong, said)

    def test_help_names_every_keyword(self):
        for method, keywords in (
            (attend.Client.attend, {"hidden_states", "model", "token_ids", "causal", "weights_choice", "timeout"}),
            (attend.AsyncClient.attend_stream, {"hidden_states", "model_output", "window", "assemble"}),
            (attend.Client.session, {"cache_dtype", "resume_ttl", "lifetime"}),
            (attend.AsyncSession.step, {"text", "top_logits", "sequence"}),
        ):
            parameters = inspect.signature(method).parameters
            self.assertLessEqual(keywords, parameters.keys())
            self.assertNotIn(inspect.Parameter.VAR_KEYWORD, {one.kind for one in parameters.values()})
        self.assertEqual(inspect.signature(attend.Client.attend).parameters["causal"].annotation, "bool")


if __name__ == "__main__":
    unittest.main()
