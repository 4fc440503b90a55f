"""What the wheel says of itself. `run.py` builds it with SOURCE as the address of its sources."""

import importlib.metadata
import pathlib
import unittest

import attend
from run import SOURCE


class MetadataTest(unittest.TestCase):
    def test_version_licence_and_sources(self):
        site = pathlib.Path(attend.__file__).parents[1]
        (package,) = importlib.metadata.distributions(name="attend-client", path=[str(site)])
        self.assertEqual(package.version, attend.__version__)
        self.assertEqual(package.metadata["License"], "Apache-2.0")
        self.assertIn("LICENSE", [file.name for file in package.files])
        self.assertEqual(package.metadata.get_all("Project-URL"), [f"Source, {SOURCE}"])


if __name__ == "__main__":
    unittest.main()
