"""The examples of the package's README, run as they stand."""

import pathlib
import re
import unittest

from support import REPOSITORY, ServedTest


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


if __name__ == "__main__":
    unittest.main()
