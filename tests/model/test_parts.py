"""Models in parts, cut by cut_gguf.py: every command opens them, and says what is wrong with others.
Usage: test_parts.py TERN MODEL.gguf ON|OFF (whether this tern can pull)"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import cut_gguf

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../hub"))
from hub_server import Hub, Repository  # noqa: E402

TERN = os.path.abspath(sys.argv.pop(1))
PATH = os.path.abspath(sys.argv.pop(1))
CAN_PULL = sys.argv.pop(1) == "ON"
with open(PATH, "rb") as _file:
    MODEL = _file.read()
PROMPT = ["-p", "Once upon a time", "-n", "8", "--greedy", "-q"]


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.whole = subprocess.run([TERN, "run", "-m", PATH, *PROMPT], check=True, capture_output=True, text=True).stdout

    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def tern(self, *words, code=0, **more):
        done = subprocess.run([TERN, *words], env={**os.environ, **more}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.said = done.stderr
        return done.stdout

    def write(self, parts, stem="m", count=None):
        paths = cut_gguf.names(os.path.join(self.folder, stem), count or len(parts))
        for path, data in zip(paths, parts):
            with open(path, "wb") as file:
                file.write(data)
        return paths

    def refuse(self, path, *words, code=1):
        self.tern("run", "-m", path, *PROMPT, code=code)
        for word in words:
            self.assertIn(word, self.said)

    def test_any_part_opens_all(self):
        for parts, first_is_empty in ((2, True), (3, False), (5, True)):
            paths = self.write(cut_gguf.cut(MODEL, parts, first_is_empty))
            for path in {paths[0], paths[-1]}:
                self.assertEqual(self.tern("run", "-m", path, *PROMPT), self.whole)

    def test_folder_and_one_part(self):
        self.write(cut_gguf.cut(MODEL, 3))
        self.assertEqual(self.tern("run", "-m", self.folder, *PROMPT), self.whole)
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        self.assertEqual(self.tern("run", "-m", self.write(cut_gguf.cut(MODEL, 1))[0], *PROMPT), self.whole)

    def test_inspect_and_tokenize(self):
        paths = self.write(cut_gguf.cut(MODEL, 3))
        whole = json.loads(self.tern("inspect", PATH, "--json"))
        found = json.loads(self.tern("inspect", paths[1], "--json"))
        self.assertEqual(found["format"], "GGUF version 3, in 3 parts")
        self.assertEqual(found["file_bytes"], sum(os.path.getsize(p) for p in paths))
        for key in ("parameters", "weight_bytes", "tensors", "config"):
            self.assertEqual(found[key], whole[key])
        self.assertIn("in 3 parts", self.tern("inspect", paths[0]))
        words = ["tokenize", "a small dog", "-m"]
        self.assertEqual(self.tern(*words, paths[2]), self.tern(*words, PATH))

    def test_convert_makes_one_file(self):
        paths = self.write(cut_gguf.cut(MODEL, 3))
        one = os.path.join(self.folder, "one.gguf")
        self.tern("convert", paths[0], "-o", one)
        self.assertEqual(self.tern("run", "-m", one, *PROMPT), self.whole)
        self.tern("convert", paths[0], "-o", paths[1], "--overwrite", code=2)  # never over an input
        self.assertIn("the same file", self.said)
        self.tern("package", paths[0], "-o", os.path.join(self.folder, "package"), code=1)
        self.assertIn("a GGUF file in 3 parts found, one file expected", self.said)

    def test_missing_part(self):
        paths = self.write(cut_gguf.cut(MODEL, 3))
        os.remove(paths[1])
        self.refuse(paths[0], "m-00002-of-00003.gguf", "no such file found", "part 2 of the model's 3")
        self.refuse(paths[2], "m-00002-of-00003.gguf")

    def test_names(self):
        parts = cut_gguf.cut(MODEL, 3)
        for path, words in (("other.gguf", "a name that ends in -00001-of-00003.gguf expected"),
                            ("m-00001-of-00004.gguf", "part 1 of 4 by its name, part 1 of 3 by its metadata"),
                            ("m-00002-of-00003.gguf", "part 2 of 3 by its name, part 1 of 3 by its metadata")):
            path = os.path.join(self.folder, path)
            with open(path, "wb") as file:
                file.write(parts[0])
            self.refuse(path, words, code=2)

    def test_wrong_parts(self):
        pairs, tensors = cut_gguf.read(MODEL)
        n, half = len(tensors), len(tensors) // 2
        keys, name = list(pairs.values()), cut_gguf.pair(b"general.file_type", 4, 77)
        first = cut_gguf.write(keys + cut_gguf.place(0, 2, n), tensors[:half])

        def second(some, *place, more=()):
            return cut_gguf.write([*more, *cut_gguf.place(*place)], some)

        for part, words in (
                (second(tensors[half:], 0, 2, n), "part 2 of 2: split.no 0 found, 1 expected"),
                (second(tensors[half:], 1, 3, n), "part 2 of 2: split.count 3 found, 2 expected"),
                (second(tensors[half:], 1, 2, n + 1), "a part of another model"),
                (second(tensors[half:], 1, 2, n, more=[name]), "general.file_type: another value"),
                (second(tensors[half - 1:], 1, 2, n), "a tensor that an earlier part has"),
                (second(tensors[half + 1:], 1, 2, n), "%d tensors found in 2 parts, %d expected" % (n - 1, n)),
                (cut_gguf.write([], tensors[half:]), "part 2 of 2: split.count 1 found, 2 expected"),
                (second(tensors[half:], 1, 2, n)[:-200], "m-00002-of-00002.gguf"),
                (b"", "m-00002-of-00002.gguf")):
            self.refuse(self.write([first, part])[0], words)

    @unittest.skipUnless(CAN_PULL, "a build without libcurl")
    def test_pull(self):
        hub = Hub()
        parts = cut_gguf.cut(MODEL, 3)
        hub.repositories["a/b"] = Repository(dict(zip(cut_gguf.names("sub/m-Q8_0", 3), parts)))
        where = {"HF_HOME": self.folder, "HF_ENDPOINT": hub.endpoint}
        path = self.tern("pull", "a/b:Q8_0", **where).strip()
        hub.close()
        self.assertTrue(path.endswith("m-Q8_0-00001-of-00003.gguf"))
        for name in ("hf:a/b", "hf:a/b/sub/m-Q8_0-00002-of-00003.gguf"):
            self.assertEqual(self.tern("run", "-m", name, *PROMPT, HF_HUB_OFFLINE="1", **where), self.whole)


if __name__ == "__main__":
    unittest.main()
