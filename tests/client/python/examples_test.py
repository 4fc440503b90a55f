"""The examples of the package: those of its README, and the programs of its folder `examples`, run as they stand."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import attend
from support import REPOSITORY, TIMEOUT, ServedTest


class ExamplesTest(ServedTest):
    def test_every_example_runs(self):
        text = pathlib.Path(REPOSITORY / "client/python/README.md").read_text()
        examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(examples), 3)
        for number, example in enumerate(examples):
            with self.subTest(number=number):
                program = example.replace("127.0.0.1:8001", self.server.address)
                self.assertIn(self.server.address, program)
                exec(compile(program, f"README.md, example {number}", "exec"), {"__name__": "__main__"})

    def run_program(self, name, *arguments):
        """What the program prints."""
        site = str(pathlib.Path(attend.__file__).parents[1])
        command = [sys.executable, str(REPOSITORY / "client/python/examples" / name), *arguments]
        result = subprocess.run(
            [*command, f"--server={self.server.address}"], capture_output=True, text=True, timeout=TIMEOUT,
            env={**os.environ, "PYTHONPATH": site},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_every_program_is_run_here(self):
        names = {file.name for file in (REPOSITORY / "client/python/examples").glob("*.py")}
        tests = pathlib.Path(__file__).read_text()
        self.assertGreater(len(names), 3)
        self.assertEqual([name for name in names if f'self.run_program("{name}"' not in tests], [])

    def test_embed_folder_finds_the_nearest_text(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a", "the cat sat"), ("b", "the cat sat"), ("c", "on the mat")):
                pathlib.Path(folder, f"{name}.txt").write_text(text)
            said = self.run_program("embed_folder.py", folder, "--model=gpt2", "--batch=2")
        self.assertIn("a.txt is nearest to b.txt (cosine 1.000)", said)
        self.assertEqual(len(said.splitlines()), 3)

    def test_stream_sequence_prints_every_block(self):
        said = self.run_program("stream_sequence.py", "--length=1500").splitlines()
        self.assertGreater(len(said), 2)
        self.assertRegex(said[0], "^rows 0 to ")
        self.assertRegex(said[-2], " to 1499, mean")
        self.assertRegex(said[-1], "^1500 rows, computed in ")

    def test_decode_session_continues_a_text(self):
        said = self.run_program("decode_session.py", "the cat sat", "--model=gpt2", "--tokens=4")
        self.assertRegex(said, r"\n9 tokens in the session, \d+ bytes")  # [CLS] the cat sat [SEP], and four

    def test_attention_page_has_a_row_for_each_token(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.html")
            self.run_program("attention_page.py", "the cat sat", "--model=gpt2", f"--output={page}")
            html = page.read_text()
        self.assertEqual(html.count("<tr>"), 1 + 5)
        self.assertIn("<th>cat</th><td", html)
        self.assertEqual(html.count("<td "), 5 * 5)


if __name__ == "__main__":
    unittest.main()
