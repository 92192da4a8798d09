"""tern pull, list and rm against a server with the hub's paths. Usage: test_pull.py TERN MODEL.gguf"""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from hub_server import COMMIT, Hub, Repository, git_sum

TERN = os.path.abspath(sys.argv.pop(1))
with open(sys.argv.pop(1), "rb") as file:
    MODEL = file.read()
BYTES = random.Random(5).randbytes(300_000)
FOLDER = {"config.json": b"{}", "tokenizer.json": b"{ }", "README.md": b"# words",
          "model-00001-of-00002.safetensors": BYTES[:1000], "model-00002-of-00002.safetensors": BYTES[1000:3000],
          "model.safetensors.index.json": b'{"weight_map": {}}', "original/consolidated.safetensors": BYTES,
          "pytorch_model.bin": BYTES}


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.folder = tempfile.mkdtemp()
        self.cache = os.path.join(self.folder, "hub")
        self.environment = {"HF_HOME": self.folder, "HF_ENDPOINT": self.hub.endpoint, "HOME": self.folder,
                            "PATH": os.environ["PATH"]}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def tearDown(self):
        self.hub.close()
        shutil.rmtree(self.folder)

    def start(self, *words, **more):
        return subprocess.Popen([TERN, *words], env={**self.environment, **more}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tern(self, *words, code=0, **more):
        """Standard output of a run that ends with this code; standard error is in self.said."""
        process = self.start(*words, **more)
        out, self.said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, self.said)
        return out

    def add(self, name, files, **how):
        self.hub.repositories[name] = Repository(files, **how)
        return self.hub.repositories[name]

    def repository(self, name="a/b"):
        return os.path.join(self.cache, "models--" + name.replace("/", "--"))

    def blobs(self, name="a/b"):
        return sorted(os.listdir(os.path.join(self.repository(name), "blobs")))

    def fetched(self):
        return [row for row in self.hub.requests if row[1].startswith("cdn/")]

    def test_layout(self):
        self.add("a/b", {"sub/m.gguf": MODEL, "README.md": b"x"})
        path = self.tern("pull", "hf:a/b").strip()
        self.assertEqual(path, os.path.join(self.repository(), "snapshots", COMMIT, "sub", "m.gguf"))
        self.assertEqual(os.readlink(path), "../../../blobs/" + hashlib.sha256(MODEL).hexdigest())
        with open(path, "rb") as file:
            self.assertEqual(file.read(), MODEL)
        with open(os.path.join(self.repository(), "refs", "main")) as file:
            self.assertEqual(file.read(), COMMIT)
        self.assertEqual(self.blobs(), [hashlib.sha256(MODEL).hexdigest()])
        said = self.tern("run", "-m", "hf:a/b", "-n", "4", "--greedy", "-q", "Once", HF_HUB_OFFLINE="1")
        self.assertEqual(said, self.tern("run", "-hf", "a/b/sub/m.gguf", "-n", "4", "--greedy", "-q", "Once"))
        self.assertTrue(said.strip())
        n = len(self.hub.requests)
        self.tern("pull", "a/b", "--json")
        self.assertEqual(len(self.hub.requests), n + 1)  # the list alone

    def test_huggingface_hub_reads_it(self):
        try:
            import huggingface_hub
        except ImportError:
            self.skipTest("huggingface_hub is not installed")
        self.add("a/b", {"m.gguf": BYTES})
        path = self.tern("pull", "a/b").strip()
        self.assertEqual(huggingface_hub.try_to_load_from_cache("a/b", "m.gguf", cache_dir=self.cache), path)

    def test_folder(self):
        self.add("a/b", FOLDER)
        path = self.tern("pull", "a/b").strip()
        self.assertEqual(path, os.path.join(self.repository(), "snapshots", COMMIT))
        wanted = sorted(set(FOLDER) - {"README.md", "original/consolidated.safetensors", "pytorch_model.bin"})
        self.assertEqual(sorted(os.listdir(path)), wanted)
        self.assertIn(git_sum(b"{}"), self.blobs())
        rows = json.loads(self.tern("list", "--json"))
        self.assertEqual([(row["name"], row["path"]) for row in rows], [("hf:a/b", path)])

    def test_tags(self):
        files = {"m-Q4_K_M.gguf": b"4", "m-Q8_0.gguf": b"8", "m-Q4_K_M_L.gguf": b"L", "mmproj-F16.gguf": b"p"}
        self.add("a/b", files)
        for name, file in (("a/b", "m-Q4_K_M.gguf"), ("a/b:q8_0", "m-Q8_0.gguf"), ("a/b/mmproj-F16.gguf",
                                                                                   "mmproj-F16.gguf")):
            self.assertTrue(self.tern("pull", name).strip().endswith("/" + file))
        self.tern("pull", "a/b:Q2_K", code=1)
        self.assertIn("no GGUF file with the tag Q2_K, but m-Q4_K_M.gguf", self.said)
        self.add("a/c", {"one.gguf": b"1", "two.gguf": b"2"})
        self.tern("pull", "a/c", code=2)
        self.assertIn("several GGUF files: one.gguf, two.gguf", self.said)
        self.add("a/d", {"weights.bin": b"1"})
        self.tern("pull", "a/d", code=1)
        self.assertIn("neither a GGUF nor a SafeTensors file, but weights.bin", self.said)

    def test_parts(self):
        files = {"m-Q8_0-%05d-of-00003.gguf" % (i + 1): BYTES[i:i + 5] for i in range(3)}
        self.add("a/b", files)
        self.assertTrue(self.tern("pull", "a/b:Q8_0").strip().endswith("-00001-of-00003.gguf"))
        self.assertEqual(len(self.blobs()), 3)
        del files["m-Q8_0-00002-of-00003.gguf"]
        self.add("a/c", files)
        self.tern("pull", "a/c", code=1)
        self.assertIn("m-Q8_0-00002-of-00003.gguf: part 2 of 3 is not there", self.said)

    def test_cut_connections(self):
        self.add("a/b", {"m.gguf": BYTES})
        self.hub.cut = [100_000, 50_000]
        self.tern("pull", "a/b")
        self.assertEqual([row[2] for row in self.fetched()], [None, "bytes=100000-", "bytes=150000-"])
        self.assertEqual(self.blobs(), [hashlib.sha256(BYTES).hexdigest()])

    def test_no_ranges(self):
        self.add("a/b", {"m.gguf": BYTES})
        self.hub.cut, self.hub.ranges = [100_000], False
        self.tern("pull", "a/b")
        self.assertEqual(self.blobs(), [hashlib.sha256(BYTES).hexdigest()])

    def test_interrupted(self):
        self.add("a/b", {"m.gguf": BYTES})
        self.hub.hold = threading.Event()
        process = self.start("pull", "a/b")
        part = os.path.join(self.repository(), "blobs", hashlib.sha256(BYTES).hexdigest() + ".incomplete")
        while not os.path.exists(part) or os.path.getsize(part) < len(BYTES) // 2:
            pass
        other = self.start("pull", "a/b")
        self.assertIn("another program is fetching", self.line_with(other, "another"))
        self.tern("rm", "a/b", "--yes", code=2)
        self.assertIn("is being pulled", self.said)
        other.send_signal(signal.SIGINT)
        self.assertEqual(other.wait(), 130)
        process.send_signal(signal.SIGINT)
        self.assertIn("What has come stays", process.communicate()[1])
        other.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.blobs(), [os.path.basename(part)])
        self.assertEqual(json.loads(self.tern("list", "--json"))[0]["incomplete_bytes"], len(BYTES) // 2)
        self.hub.hold.set()
        self.hub.hold = None
        self.tern("pull", "a/b")
        self.assertEqual(self.fetched()[-1][2], "bytes=%d-" % (len(BYTES) // 2))

    def line_with(self, process, words):
        for line in process.stderr:
            if words in line:
                return line
        return ""

    def test_wrong_sums(self):
        repository = self.add("a/b", {"m.gguf": BYTES, "config.json": b"{}"})
        repository.claims["m.gguf"] = {"sum": "1" * 64}
        self.tern("pull", "a/b", code=1)
        self.assertIn("its sum is %s, the hub says 11111111" % hashlib.sha256(BYTES).hexdigest(), self.said)
        self.assertEqual(self.blobs(), [])
        self.tern("run", "-m", "hf:a/b", "x", code=1)
        # A part from before that is not of this file is begun again.
        del repository.claims["m.gguf"]
        part = os.path.join(self.repository(), "blobs", hashlib.sha256(BYTES).hexdigest() + ".incomplete")
        with open(part, "wb") as file:
            file.write(b"x" * 1000)
        self.tern("pull", "a/b")
        self.assertEqual([row[2] for row in self.fetched()], [None, "bytes=1000-", None])

    def test_wrong_sizes(self):
        repository = self.add("a/b", {"m.gguf": BYTES})
        repository.claims["m.gguf"] = {"size": 1000}
        self.tern("pull", "a/b", code=1)
        self.assertIn("m.gguf: more than the 1000 bytes expected came", self.said)
        repository.claims["m.gguf"] = {"size": len(BYTES) + 1}
        self.tern("pull", "a/b", code=1)
        self.assertIn("m.gguf: ", self.said)
        self.assertFalse(os.path.exists(os.path.join(self.repository(), "snapshots")))

    def test_no_space(self):
        self.add("a/b", {"m.gguf": BYTES}).claims["m.gguf"] = {"size": 1 << 52}
        self.tern("pull", "a/b", code=1)
        self.assertIn("4503599627370496 bytes are still missing", self.said)
        self.assertEqual(self.fetched(), [])
        self.add("a/b", {"m.gguf": BYTES})
        script = 'trap "" XFSZ; ulimit -f 100; exec "$0" pull a/b'
        done = subprocess.run(["sh", "-c", script, TERN], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("m.gguf: File too large", done.stderr)

    def test_gated(self):
        self.add("a/b", {"m.gguf": BYTES}, gated=True)
        self.hub.token = "hf_right"
        self.tern("pull", "a/b", code=2)
        self.assertIn("a/b is gated (401): ask for access on %s/a/b" % self.hub.endpoint, self.said)
        self.tern("pull", "a/b", code=2, HF_TOKEN="hf_wrong")
        self.assertIn("(403): the token's owner has no access", self.said)
        with open(os.path.join(self.folder, "token"), "w") as file:
            file.write("hf_right\n")
        self.tern("pull", "a/b")
        self.assertTrue(all(row[3] is None for row in self.fetched()))  # another host gets no token
        self.assertNotIn("hf_right", self.said)
        self.tern("pull", "a/b", code=2, HF_TOKEN="a\rb")
        self.assertIn("a character found that tokens cannot contain", self.said)

    def test_absent(self):
        self.tern("pull", "no/thing", code=2)
        self.assertIn("/no/thing does not exist, or is private (401)", self.said)
        self.tern("pull", "no/thing", code=1, HF_TOKEN="hf_x")
        self.add("a/b", {"m.gguf": BYTES})
        self.tern("pull", "a/b@v2", code=1)
        self.assertIn("a/b has no such revision (404)", self.said)
        self.tern("pull", "a/b/n.gguf", code=1)
        self.assertIn("a/b has no file n.gguf, but m.gguf", self.said)
        for name in ("a", "a/../b", "a/b/../../c.gguf", "a/b//c", "a--b/c", "a/b:", "a/b/c.gguf:Q8_0", "bitnet-2b-5t"):
            self.tern("pull", name, code=2)
        self.assertIn("did you mean bitnet-2b-4t?", self.said)

    def test_lists_that_lead_elsewhere(self):
        for path in ("../x.gguf", "/etc/x.gguf", "a/./x.gguf", "a\nb.gguf"):
            self.add("a/b", {path: BYTES})
            self.tern("pull", "a/b", code=1)
            self.assertIn("a path inside the repository expected", self.said)
        self.add("a/b", {"m.gguf": BYTES}).claims["m.gguf"] = {"sum": "../" * 21 + "x"}
        self.tern("pull", "a/b", code=1)
        self.assertIn("as its sum in the hub's list", self.said)

    def test_busy_server(self):
        self.add("a/b", {"m.gguf": BYTES})
        self.hub.statuses = [503]
        self.tern("pull", "a/b")
        self.hub.statuses = [404]
        self.tern("pull", "a/b@" + COMMIT)  # all is there

    def test_offline(self):
        self.add("a/b", {"m.gguf": MODEL})
        self.tern("pull", "a/b", code=1, HF_HUB_OFFLINE="1")
        self.assertIn("HF_HUB_OFFLINE is set, so nothing is fetched", self.said)
        self.tern("run", "-m", "hf:a/b", "x", code=1)
        self.assertIn("`tern pull hf:a/b` fetches it", self.said)
        self.tern("run", "-m", "bitnet-2b-4t", "x", code=1)
        self.assertIn("`tern pull bitnet-2b-4t` fetches it", self.said)
        self.assertEqual(self.hub.requests, [])
        self.hub.close()
        self.tern("pull", "a/b", code=1)
        self.assertIn(self.hub.endpoint, self.said)
        self.hub = Hub()

    def test_list_and_remove(self):
        self.assertIn("No models in", self.tern("list"))
        self.add("a/b", {"m-Q8_0.gguf": BYTES, "n-Q4_0.gguf": BYTES, "o-F16.gguf": BYTES[:9]})
        self.add("microsoft/bitnet-b1.58-2B-4T-gguf", {"ggml-model-i2_s.gguf": MODEL})
        for name in ("a/b:Q8_0", "a/b:Q4_0", "a/b:F16", "bitnet-2b-4t"):
            self.tern("pull", name)
        self.assertEqual(len(self.blobs()), 2)  # two files are the same bytes
        self.assertEqual(self.tern("list", "--names").split(),
                         ["hf:a/b/m-Q8_0.gguf", "hf:a/b/n-Q4_0.gguf", "hf:a/b/o-F16.gguf", "bitnet-2b-4t"])
        self.tern("run", "-m", "bitnet-2b-4t", "-n", "2", "Once")
        self.tern("rm", "hf:a/b/m-Q8_0.gguf", code=2)
        self.assertIn("was not removed: --yes", self.said)
        self.tern("rm", "hf:a/b/m-Q8_0.gguf", "-y")
        self.assertEqual(len(self.blobs()), 2)
        self.tern("rm", "a/b:Q4_0", "-y")
        self.assertEqual(self.blobs(), [hashlib.sha256(BYTES[:9]).hexdigest()])
        self.tern("rm", "a/b", "bitnet-2b-4t", "-y")
        self.assertFalse(os.path.exists(self.repository()))
        self.assertEqual(self.tern("list", "--names"), "")
        self.tern("rm", "a/b", "-y", code=1)

    def test_remove_keeps_to_the_cache(self):
        outside = os.path.join(self.folder, "outside.gguf")
        with open(outside, "wb") as file:
            file.write(BYTES)
        self.add("a/b", {"m.gguf": BYTES})
        path = self.tern("pull", "a/b").strip()
        os.unlink(path)
        os.symlink(outside, path)
        self.tern("rm", "a/b/m.gguf", "-y")
        self.assertTrue(os.path.exists(outside))
        os.symlink(self.folder, os.path.join(self.repository(), "snapshots", "x"))
        self.tern("rm", "a/b", "-y")
        self.assertTrue(os.path.exists(outside))


if __name__ == "__main__":
    unittest.main()
