"""tern-cuda.so as the command and the library meet it: missing, of another build, no module at all, without a driver.
Usage: test_module.py TERN LIBTERN MODEL.gguf BUILD_FOLDER   (which has the modules of tests/base, and may have tern-cuda.so)"""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from modules import other_mark  # noqa: E402

TERN, LIBRARY, MODEL, BUILD = (os.path.realpath(path) for path in sys.argv[1:5])
PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python")
OF_TESTS = os.path.join(BUILD, "test-module-{}.so")
REAL = os.path.join(BUILD, "tern-cuda.so")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


class Module(unittest.TestCase):
    """Each in an installed tree of its own: bin/tern, lib/libtern.so.0, lib/tern."""

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("bin", "lib/tern"):
            os.makedirs(os.path.join(self.folder, name))
        self.program = shutil.copy(TERN, os.path.join(self.folder, "bin"))
        self.module = os.path.join(self.folder, "lib/tern/tern-cuda.so")

    def tern(self, *words, code=0, **environment):
        done = subprocess.run([self.program, *words], env={**os.environ, **environment}, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        self.said = done.stderr
        return done.stdout

    def run_on(self, backend, **how):
        return self.tern("run", "-m", MODEL, "-p", "Once", "-n", "1", "-q", "--backend", backend, **how)

    def refused(self, *expected, **environment):
        """--backend cuda ends with these words, and `tern devices` shows them."""
        self.run_on("cuda", code=1, **environment)
        shown = self.tern("devices", **environment)
        devices = json.loads(self.tern("devices", "--json", **environment))["cuda"]
        self.assertEqual(devices["devices"], [])
        for words in expected:
            self.assertIn(words, devices["problem"])
            self.assertIn(words, shown)
        self.run_on("cuda", code=1, **environment)
        self.assertIn(devices["problem"], self.said)

    def test_missing(self):
        self.refused(f"cuda: no tern-cuda.so in {self.folder}/bin, or in lib/tern beside it", "`make cuda`",
                     "the package tern-cuda")
        self.assertIn("cuda", json.loads(self.tern("version", "--json"))["without"])

    def test_another_build(self):
        shutil.copy(OF_TESTS.format("other"), self.module)
        self.refused(f"{self.module} belongs to another build of Tern: 0.0.9-0123456789ab found")
        self.assertIn("cuda", json.loads(self.tern("version", "--json"))["backends"])

    def test_no_module(self):
        with open(self.module, "w", encoding="utf-8") as file:
            file.write("text\n")
        self.refused(self.module)
        shutil.copy(OF_TESTS.format("same"), self.module)
        self.refused(self.module, "tern_cuda_module_open")

    def test_automatic_choice(self):
        """It takes what there is, and says so where a driver is passed over."""
        if not has_driver():
            self.run_on("auto")
            self.assertEqual(self.said, "")
        shutil.copy(OF_TESTS.format("same"), os.path.join(self.folder, "lib/libcuda.so.1"))
        self.run_on("auto", LD_LIBRARY_PATH=os.path.join(self.folder, "lib"))
        self.assertRegex(self.said, "^note: --backend auto uses (cpu|vulkan): cuda: no tern-cuda.so in ")

    def test_beside_the_library(self):
        """For a program elsewhere, Python, the module lies beside libtern.so or in tern below it."""
        library = shutil.copy(LIBRARY, os.path.join(self.folder, "lib/libtern.so.0"))
        ask = (f"import sys, tern\ntry:\n    tern.Engine({MODEL!r}, backend='cuda')\n"
               "except tern.TernError as error:\n    print(error)")
        for place in ("lib/tern/tern-cuda.so", "lib/tern-cuda.so"):
            module = shutil.copy(OF_TESTS.format("other"), os.path.join(self.folder, place))
            done = subprocess.run([sys.executable, "-c", ask], env={**os.environ, "TERN_LIBRARY": library,
                                  "PYTHONPATH": PYTHON}, capture_output=True, text=True, check=True)
            self.assertIn(f"{module} belongs to another build of Tern", done.stdout)

    @unittest.skipUnless(os.path.exists(REAL), "a build without tern-cuda.so")
    def test_the_real_one(self):
        mark, other = other_mark(REAL, self.module)
        self.refused(f"{self.module} belongs to another build of Tern: {other} found, {mark} expected")
        shutil.copy(REAL, self.module)
        self.refused("cuda: the driver shows no device" if has_driver() else "cuda: no NVIDIA driver",
                     CUDA_VISIBLE_DEVICES="")


if __name__ == "__main__":
    del sys.argv[1:5]
    unittest.main()
