"""tern package --torrent and tern pull of torrents: hashes, swarms of processes on this machine, refused torrents.
Usage: test_torrent.py TERN MODEL.gguf"""
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from modules import other_mark  # noqa: E402
from torrent_tools import Peer, WebSeed, decode, encode, file_root, piece_layer, stream, version_1  # noqa: E402, F401

TERN = os.path.abspath(sys.argv.pop(1))
MODEL = os.path.abspath(sys.argv.pop(1))
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torrent_tools.py")
ALONE = ["--no-discovery"]


def free_port(address):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, 0))
        return s.getsockname()[1]


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


class Torrents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.mkdtemp()
        cls.package = os.path.join(cls.made, "stories")
        subprocess.run([TERN, "package", MODEL, "-o", cls.package, "--shard-size", "1"], check=True,
                       capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.made)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.cache = os.path.join(self.folder, "cache")
        self.started = []
        self.seed = WebSeed(self.folder)
        self.source = os.path.join(self.folder, "stories")
        shutil.copytree(self.package, self.source)

    def tearDown(self):
        self.seed.close()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        shutil.rmtree(self.folder)

    def start(self, *words, cache=None, program=TERN, **more):
        environment = {**os.environ, "HF_HUB_CACHE": cache or self.cache, **more}
        process = subprocess.Popen([program, *words], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def tern(self, *words, code=0, **more):
        process = self.start(*words, **more)
        out, self.said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, self.said)
        return out

    def pull(self, what, *words, **more):
        return self.tern("pull", what, "--listen", "127.0.0.1:0", *ALONE, *words, **more).strip()

    def make(self, *words, web=True, folder=None):
        seeds = ["--web-seed", self.seed.url] if web else []
        said = self.tern("package", folder or self.source, "--torrent", "--json", *seeds, *words)
        self.torrent = json.loads(said)["torrent"]
        return self.torrent["path"]

    def give(self, path, address, *words, **more):
        """A tern that seeds a package from its own folder, and its port."""
        port = free_port(address)
        process = self.start("pull", path, "--seed", "--listen", "%s:%d" % (address, port), *ALONE, *words, **more)
        self.assertEqual(process.stdout.readline().strip(), os.path.realpath(os.path.dirname(path)))
        return process, port

    def peer(self, kind, path, bind, port):
        return self.start(TOOLS, kind, path, self.source, bind, "127.0.0.1", str(port), program=sys.executable)

    def same(self, package, source=None):
        names = sorted(os.listdir(package))
        self.assertEqual(names, sorted(n for n in os.listdir(source or self.source) if n != "package.torrent"))
        for name in names:
            self.assertEqual(read(package, name), read(source or self.source, name))

    # ---- writing

    def test_written(self):
        path = self.make("--tracker", "http://127.0.0.1:1/announce", "--tracker", "udp://127.0.0.1:2")
        data = read(path)
        root, end = decode(data)
        self.assertEqual(end, len(data))
        self.assertEqual(sorted(root), [b"announce", b"announce-list", b"info", b"piece layers", b"url-list"])
        self.assertEqual(root[b"announce-list"], [[b"http://127.0.0.1:1/announce"], [b"udp://127.0.0.1:2"]])
        seeds = root[b"url-list"]
        self.assertEqual(seeds if isinstance(seeds, list) else [seeds], [self.seed.url.encode()])
        info, raw = root[b"info"], encode(root[b"info"])
        self.assertIn(raw, data)
        self.assertEqual((info[b"name"], info[b"meta version"], info[b"piece length"]), (b"stories", 2, 65536))
        self.assertEqual(self.torrent["info_hash"], hashlib.sha1(raw).hexdigest())
        self.assertEqual(self.torrent["info_hash_v2"], hashlib.sha256(raw).hexdigest())
        names = ["manifest.json"] + [s["file"] for s in json.loads(read(self.source, "manifest.json"))["shards"]]
        self.check_version_1(info, names)
        self.check_version_2(root, names)

    def check_version_1(self, info, names):
        files = [file for file in info[b"files"] if b"p" not in file.get(b"attr", b"")]
        self.assertEqual([file[b"path"] for file in files], [[name.encode()] for name in names])
        self.assertEqual([file[b"length"] for file in files], [len(read(self.source, name)) for name in names])
        data, piece = stream(info, self.source), info[b"piece length"]
        pieces = b"".join(hashlib.sha1(data[i:i + piece]).digest() for i in range(0, len(data), piece))
        self.assertEqual(info[b"pieces"], pieces)
        at = 0
        for file in info[b"files"]:  # a shard begins a piece
            if b"p" not in file.get(b"attr", b""):
                self.assertEqual(at % piece, 0)
            at += file[b"length"]

    def check_version_2(self, root, names):
        info, piece = root[b"info"], root[b"info"][b"piece length"]
        self.assertEqual(sorted(info[b"file tree"]), [name.encode() for name in names])
        for name in names:
            data, leaf = read(self.source, name), info[b"file tree"][name.encode()][b""]
            self.assertEqual(leaf[b"length"], len(data))
            self.assertEqual(leaf[b"pieces root"], file_root(data, piece))
            if len(data) > piece:
                self.assertEqual(root[b"piece layers"][leaf[b"pieces root"]], b"".join(piece_layer(data, piece)))

    def test_same_bytes(self):
        first = read(self.make())
        magnet = self.torrent["magnet"]
        fields = urllib.parse.parse_qs(magnet.split("?")[1])
        self.assertEqual(fields["xt"], ["urn:btih:" + self.torrent["info_hash"],
                                        "urn:btmh:1220" + self.torrent["info_hash_v2"]])
        self.assertEqual((fields["dn"], fields["ws"]), (["stories"], [self.seed.url]))
        os.utime(os.path.join(self.source, "shard_000.bin"), (1, 1))
        os.chmod(os.path.join(self.source, "shard_000.bin"), 0o755)
        self.assertEqual(read(self.make()), first)
        self.assertEqual(self.tern("package", self.source, "--torrent", "--web-seed", self.seed.url), magnet + "\n")
        # A package that is made anew is replaced with its torrent, and gets the same one.
        self.tern("package", MODEL, "-o", self.source, "--shard-size", "1", "--torrent", "--overwrite", "--web-seed",
                  self.seed.url)
        self.assertEqual(read(self.source, "package.torrent"), first)

    def test_flags(self):
        self.tern("package", self.source, "--web-seed", "http://x/", code=2)
        self.assertIn("need --torrent, which was not given", self.said)
        self.tern("package", self.source, "--torrent", "--web-seed", "ftp://x/", code=2)
        self.assertIn("--web-seed ftp://x/: an address as", self.said)
        self.tern("pull", "a/b", "--seed", code=2)
        self.assertIn("--seed: a/b found, a magnet link or a .torrent file expected", self.said)
        self.tern("pull", "magnet:?x", code=2)
        self.assertIn("the magnet link", self.said)
        for words in (["--peer", "here"], ["--peer", "127.0.0.1:99999"], ["--listen", "127.0.0.1"]):
            self.tern("pull", "magnet:?xt=urn:btih:" + "1" * 40, *ALONE, *words, code=2)
            self.assertIn("an address and a port, as 192.0.2.1:6881, expected", self.said)
        os.truncate(os.path.join(self.source, "shard_001.bin"), 5)
        self.tern("package", self.source, "--torrent", code=1)
        self.assertIn("shard_001.bin: 5 bytes found, 1048576 expected", self.said)

    # ---- swarms

    def test_web_seed_alone(self):
        path = self.make()
        package = self.pull(path)
        self.assertEqual(package, os.path.join(self.cache, "torrents--" + self.torrent["info_hash"], "stories"))
        self.same(package)
        n = len(self.seed.requests)
        self.assertEqual(self.tern("pull", path, HF_HUB_OFFLINE="1").strip(), package)
        self.assertEqual(self.tern("pull", self.torrent["magnet"], HF_HUB_OFFLINE="1").strip(), package)
        self.assertEqual(len(self.seed.requests), n)
        row = json.loads(self.tern("list", "--json"))[0]
        self.assertEqual((row["name"], row["path"]), ("torrent:stories", package))
        said = self.tern("run", "-m", "torrent:stories", "-n", "4", "--greedy", "-q", "Once")
        self.assertEqual(said, self.tern("run", "-m", MODEL, "-n", "4", "--greedy", "-q", "Once"))
        self.tern("rm", "torrent:stories", code=2)
        self.tern("rm", "torrent:stories@" + self.torrent["info_hash"][:8], "--yes")
        self.assertEqual(json.loads(self.tern("list", "--json")), [])
        self.tern("run", "-m", "torrent:stories", code=1)
        self.assertIn("torrent:stories is not in", self.said)

    def test_magnet(self):
        """A link and one peer, who ends by itself while it gives to a second; then the first goes on giving."""
        seeder, port = self.give(self.make(web=False), "127.0.0.2", "--seed-ratio", "1.2", "-q")
        source = ["--listen", "127.0.0.1:0", *ALONE, "--peer", "127.0.0.2:%d" % port]
        self.same(package := self.tern("pull", self.torrent["magnet"], *source).strip())
        second = self.start("pull", self.torrent["magnet"], *source, cache=os.path.join(self.folder, "second"))
        self.assertEqual(seeder.wait(timeout=60), 0)
        second.kill()  # the seeder may have left before it had all
        shutil.rmtree(self.source)  # what was fetched is given on, and the link has version 2 alone
        port = free_port("127.0.0.3")
        again = self.start("pull", self.torrent["magnet"], "--seed", "--listen", "127.0.0.3:%d" % port, *ALONE)
        self.assertEqual(again.stdout.readline().strip(), package)
        link = "magnet:?xt=urn:btmh:1220" + self.torrent["info_hash_v2"]
        self.same(self.pull(link, "--peer", "127.0.0.3:%d" % port, cache=os.path.join(self.folder, "other")), package)
        again.send_signal(signal.SIGINT)
        self.assertEqual(again.wait(timeout=60), 0)

    def test_swarm_of_five(self):
        """One that lies, one that leaves in the middle, a slow one; then a good one comes."""
        path, port = self.make(web=False), free_port("127.0.0.1")
        puller = self.start("pull", path, "--listen", "127.0.0.1:%d" % port, *ALONE)
        self.line_with(puller, "4 files")
        while True:  # until it listens
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
                break
            except ConnectionRefusedError:
                pass
        for kind, address in (("liar", "127.0.0.3"), ("leaver", "127.0.0.4"), ("slow", "127.0.0.5")):
            self.gives(kind, path, address, port)  # the liar alone at first, so that its bytes count
        self.give(path, "127.0.0.2", "--peer", "127.0.0.1:%d" % port)
        said = puller.stderr.read()
        self.assertEqual(puller.wait(timeout=60), 0, said)
        self.same(puller.stdout.read().strip())
        self.assertRegex(said, "wrong bytes came: such pieces are fetched again|sent wrong bytes and is not asked")

    def gives(self, kind, path, address, port):
        """A peer that is asked for a block. It calls again if all blocks were requested from another peer."""
        said = [self.peer(kind, path, address, port).stdout.readline()]
        while said[-1] == "gave 0\n" and len(said) < 3:
            said.append(self.peer(kind, path, address, port).stdout.readline())
        self.assertEqual(said[-1], "gave\n", "%s: %s" % (kind, said))

    def line_with(self, process, words):
        said = []
        for line in process.stderr:
            said.append(line)
            if words in line:
                return line
        self.fail("no line with %s in %s" % (words, said))

    def test_web_seed_that_lies(self):
        path = self.make()
        self.seed.spoil["shard_001.bin"] = bytes(1 << 20)
        self.give(path, "127.0.0.2")
        port = [word for word in self.started[-1].args if ":" in word][-1]
        self.same(self.pull(path, "--peer", port))

    def test_killed(self):
        path = self.make()
        self.seed.hold = 1_500_000
        puller = self.start("pull", path, "--listen", "127.0.0.1:0", *ALONE)
        self.assertTrue(self.seed.held.wait(60))
        self.tern("rm", "torrent:stories", "--yes", code=2)
        self.assertIn("is being pulled or seeded", self.said)
        self.pull(path, code=2)
        self.assertIn("another program is pulling or seeding it", self.said)
        puller.kill()
        puller.wait()
        self.tern("run", "-m", "torrent:stories", code=1)
        self.assertIn("is incomplete", self.said)
        row = json.loads(self.tern("list", "--json"))[0]
        self.assertEqual((row["name"], row["path"], row["bytes"]), ("torrent:stories", None, 0))
        self.assertEqual(self.tern("list", "--names"), "")
        served, self.seed.hold = self.seed.served, None
        self.same(self.pull(self.torrent["magnet"]))  # its description is known, and half of its bytes
        self.assertLess(self.seed.served - served, 2_000_000)

    def test_interrupted_and_alone(self):
        path = self.make(web=False)
        self.pull(path, "--timeout", "1", code=1)
        self.assertIn("no data came for 1 seconds (--timeout), from 0 peers", self.said)
        self.pull("magnet:?xt=urn:btih:" + "1" * 40, "--timeout", "1", code=1)
        self.assertIn("no data came", self.said)
        puller = self.start("pull", path, "--listen", "127.0.0.1:0", *ALONE)
        self.line_with(puller, "4 files")
        self.line_with(puller, "no data came for 20 seconds, from 0 peers")
        puller.send_signal(signal.SIGINT)
        self.assertIn("What has come stays", puller.stderr.read())
        self.assertEqual(puller.wait(timeout=60), 130)
        self.pull(path, code=1, HF_HUB_OFFLINE="1")
        self.assertIn("HF_HUB_OFFLINE", self.said)

    # ---- adapters

    def adapter(self):
        """A package of what one step on the bundled model has learned."""
        learned, self.source = (os.path.join(self.folder, name) for name in ("learned.gguf", "logbook"))
        text = self.write(b"Glass 29.28 and rising. Sea slight. Lamp lit at 8.40.\n" * 40, "text.txt")
        self.tern("finetune", "-m", MODEL, "--data", text, "--lora", "2", "--steps", "1", "--lr", "0.1", "--seq", "64",
                  "-o", learned)
        self.tern("package", learned, "-o", self.source)
        self.assertEqual(read(self.source, "adapter.gguf"), read(learned))
        manifest = json.loads(read(self.source, "manifest.json"))
        sums = {shard["file"]: shard["sha256"] for shard in manifest["shards"]}
        self.assertEqual(sums, {"adapter.gguf": hashlib.sha256(read(learned)).hexdigest()})
        return learned

    def measure(self, *words, **more):
        return self.tern("perplexity", os.path.join(self.folder, "text.txt"), "-m", MODEL, "--json", *words, **more)

    def test_adapter(self):
        """From a peer by a link; then it is used by its name."""
        learned = self.adapter()
        _, port = self.give(self.make(web=False, folder=self.source), "127.0.0.2")
        package = self.pull(self.torrent["magnet"], "--peer", "127.0.0.2:%d" % port)
        self.same(package)
        expected = self.measure("--lora", learned)
        self.assertNotEqual(expected, self.measure())
        self.assertEqual(self.measure("--lora", "torrent:logbook"), expected)
        self.assertEqual(self.measure("--lora", "torrent:logbook@" + self.torrent["info_hash"][:8] + ":1"), expected)
        self.assertEqual(self.measure("--lora", "torrent:logbook:0.5"), self.measure("--lora", learned + ":0.5"))
        self.assertIn("package of a LoRA adapter (GGUF), sums right", self.tern("inspect", "torrent:logbook"))
        trained = [os.path.join(self.folder, "on%d.gguf" % i) for i in range(2)]
        for start, to in zip((learned, "torrent:logbook"), trained):
            self.tern("finetune", "-m", MODEL, "--data", os.path.join(self.folder, "text.txt"), "--lora-start", start,
                      "--steps", "1", "--seq", "64", "-o", to)
        self.assertEqual(read(trained[0]), read(trained[1]))
        self.tern("finetune", "-m", MODEL, "--data", learned, "--lora-start", "torrent:log", "-o", "x.gguf", code=1)
        self.assertIn("--lora-start: torrent:log is not in", self.said)
        self.tern("run", "-m", "torrent:logbook", "x", code=1)
        self.assertIn("the package of an adapter (LoRA) found, that of a model expected", self.said)
        port = free_port("127.0.0.1")
        server = self.start("serve", "-m", MODEL, "--lora", "log=torrent:logbook", "--port", str(port))
        self.line_with(server, "127.0.0.1:%d" % port)
        with urllib.request.urlopen("http://127.0.0.1:%d/v1/models" % port) as answer:
            self.assertIn("log", [card["id"] for card in json.load(answer)["data"]])
        self.tern("serve", "-m", MODEL, "--lora", "log=torrent:log", code=1)
        self.assertIn("torrent:log is not in", self.said)
        self.measure("--lora", "torrent:log", code=1)
        self.assertIn("--lora: torrent:log is not in", self.said)
        self.measure("--lora", self.torrent["magnet"], code=1)
        self.assertIn("`tern pull` fetches it, torrent:NAME opens it", self.said)
        with open(os.path.join(package, "adapter.gguf"), "r+b") as file:
            file.write(b"spoiled")
        self.measure("--lora", "torrent:logbook", code=1)
        self.assertIn("adapter.gguf: SHA-256 sum", self.said)

    def test_model_for_an_adapter(self):
        self.pull(self.make())
        self.write(b"Once upon a time", "text.txt")
        self.measure("--lora", "torrent:stories", code=1)
        self.assertIn("the package of a model found, that of an adapter (LoRA) expected", self.said)

    def test_adapter_of_another_manifest(self):
        self.adapter()
        with open(os.path.join(self.source, "adapter.gguf"), "r+b") as file:
            file.write(b"spoiled")
        self.pull(self.make(folder=self.source), code=1)
        self.assertIn("logbook: adapter.gguf: its sum is", self.said)
        self.assertEqual(json.loads(self.tern("list", "--json")), [])

    # ---- refused

    def write(self, data, name="x.torrent"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def refuse(self, data, words, code=1):
        self.pull(self.write(data), code=code)
        self.assertIn(words, self.said)
        self.assertEqual([n for n in (os.listdir(self.cache) if os.path.isdir(self.cache) else [])
                          if n.startswith("torrents")], [])

    def test_other_names(self):
        manifest, one = (["manifest.json"], b"{}"), (["shard_000.bin"], b"1")
        self.refuse(version_1([manifest, one, one]), "two files with the name shard_000.bin")
        for path in (["..", "x.bin"], ["/etc/x.bin"], ["a", "x.bin"], [".."], ["a/b"], ["a\\b"], ["a\nb"], [".x"]):
            self.refuse(version_1([manifest, (path, b"1")]), "a name without a folder expected")
        for path in ([""], []):
            self.pull(self.write(version_1([manifest, (path, b"1")])), code=1)
            self.assertRegex(self.said, "a name without a folder expected|no torrent")
        for name in ("..", "/etc", "a/b", ""):
            self.pull(self.write(version_1([manifest, one], name=name)), code=1)
            self.assertRegex(self.said, "a name without a folder expected|no torrent")
        self.refuse(version_1([manifest, (["x.bin"], b"1", {"path.utf-8": ["..", "x.bin"]})]),
                    "a name without a folder expected")
        self.refuse(version_1([manifest, (["x.bin"], b"", {"attr": "l", "symlink path": ["..", "y"]})]), "is a link")

    def test_no_packages(self):
        self.refuse(version_1([(["a.bin"], b"1"), (["b.bin"], b"1")]), "2 files and no manifest.json")
        info = {"name": "m.gguf", "piece length": 16384, "pieces": bytes(20), "length": 5}
        self.refuse(encode({"info": info}), "one file found: a package")
        for data in (b"", b"x", b"de", encode({"info": {}}), encode({"info": 5}), b"l" * 1000):
            self.refuse(data, "x.torrent: no torrent")
        with open(self.make(), "rb") as file:
            data = file.read()
        for cut in range(0, len(data), 97):
            self.refuse(data[:cut], "no torrent")

    def test_too_large(self):
        def torrent(path, size):
            pieces = bytes(20 * ((size + 5) // (1 << 29) + 1))
            files = [{"path": [path], "length": size}, {"path": ["manifest.json"], "length": 5}]
            return encode({"info": {"name": "p", "piece length": 1 << 29, "pieces": pieces,
                                    "files": files[:1 if path == "manifest.json" else 2]}})
        self.refuse(torrent("a.bin", (1 << 30) + 1), "a.bin has 1073741825 bytes: at most 1073741824 expected")
        self.pull(self.write(torrent("manifest.json", (32 << 20) + 1)), code=1)
        self.assertRegex(self.said, "at most 33554432 expected|one file found")
        rows = [{"path": ["manifest.json"], "length": 5}] + [{"path": ["s%d" % i], "length": 1 << 30} for i in
                                                             range(60000)]
        pieces = bytes(20 * ((60000 << 30) // (1 << 29) + 1))
        data = encode({"info": {"name": "p", "piece length": 1 << 29, "pieces": pieces, "files": rows}})
        self.pull(self.write(data), code=1)
        self.assertIn("64424509440005 bytes are still missing", self.said)
        rows += [{"path": ["t%d" % i], "length": 0} for i in range(6000)]
        data = encode({"info": {"name": "p", "piece length": 1 << 29, "pieces": pieces, "files": rows}})
        self.refuse(data, "66001 files: at most 65537 expected")

    def test_bytes_of_another_manifest(self):
        """A torrent whose own hashes are right, of bytes that are not the manifest's."""
        with open(os.path.join(self.source, "shard_001.bin"), "r+b") as file:
            file.write(b"spoiled")
        path = self.make()
        self.pull(path, code=1)
        self.assertIn("stories: shard_001.bin: its sum is %s, the manifest says" %
                      hashlib.sha256(read(self.source, "shard_001.bin")).hexdigest(), self.said)
        self.assertEqual(json.loads(self.tern("list", "--json")), [])
        self.pull(path, "--seed", code=1)
        self.assertIn("its sum is", self.said)
        self.assertTrue(os.path.exists(os.path.join(self.source, "shard_001.bin")))

    def test_other_files_than_the_manifest(self):
        """Found by the manifest alone, before a shard is asked for."""
        self.make()
        files = {name: read(self.source, name) for name in ("manifest.json", "shard_000.bin", "shard_001.bin")}
        rows = [([name], data) for name, data in files.items()]
        self.pull(self.write(version_1(rows, 65536, "stories", **{"url-list": self.seed.url})), code=1)
        self.assertIn("manifest.json and 2 other files found, the manifest has 3 shards", self.said)
        rows.append((["shard_x.bin"], read(self.source, "shard_002.bin")))
        self.pull(self.write(version_1(rows, 65536, "stories", **{"url-list": self.seed.url})), code=1)
        self.assertIn("the manifest has a shard shard_002.bin that the torrent lacks", self.said)
        rows = [(["manifest.json"], b"{}" + bytes(100)), (["shard_000.bin"], b"1")]
        self.seed.spoil = {name: data for (name,), data in rows}
        self.pull(self.write(version_1(rows, 65536, "stories", **{"url-list": self.seed.url})), code=1)
        self.assertIn("manifest: JSON has no NUL byte", self.said)
        self.assertEqual(json.loads(self.tern("list", "--json")), [])

    def test_given_from_other_bytes(self):
        """A package's own folder is never written to."""
        path = self.make()
        manifest = json.loads(read(self.source, "manifest.json"))
        spoiled = b"s" + read(self.source, "shard_001.bin")[1:]
        manifest["shards"][1]["sha256"] = hashlib.sha256(spoiled).hexdigest()
        for name, data in (("shard_001.bin", spoiled), ("manifest.json", json.dumps(manifest).encode())):
            with open(os.path.join(self.source, name), "wb") as file:
                file.write(data)
        self.pull(path, "--seed", code=1)
        self.assertIn("the files beside it are not those that it describes", self.said)
        self.assertEqual(read(self.source, "shard_001.bin"), spoiled)

    def test_two_of_one_name(self):
        self.pull(self.make())
        first = self.torrent["info_hash"][:8]
        shutil.rmtree(self.source)
        self.tern("package", MODEL, "-o", self.source, "--shard-size", "2", "--torrent", "--web-seed", self.seed.url)
        self.pull(os.path.join(self.source, "package.torrent"))
        self.tern("run", "-m", "torrent:stories", code=2)
        self.assertIn("2 torrents have that name: torrent:stories@HASH expected", self.said)
        names = self.tern("list", "--names").split()
        self.assertEqual((len(names), "torrent:stories@" + first in names), (2, True))
        self.tern("run", "-m", names[0], "-n", "1", "Once")

    def test_without_the_module(self):
        alone = os.path.join(self.folder, "bin")
        os.mkdir(alone)
        shutil.copy(TERN, alone)
        tern = os.path.join(alone, "tern")
        self.tern("pull", "magnet:?xt=urn:btih:" + "1" * 40, program=tern, code=1)
        self.assertIn(f"no tern-torrent.so in {os.path.realpath(alone)}, or in lib/tern beside it", self.said)
        out = os.path.join(self.folder, "out")
        self.tern("package", MODEL, "-o", out, "--torrent", program=tern, code=1)
        self.assertIn("libtorrent-rasterbar-dev", self.said)
        self.assertFalse(os.path.exists(out))
        self.tern("package", MODEL, "-o", out, program=tern)
        self.tern("list", program=tern)

    def test_a_module_of_another_build(self):
        alone = os.path.join(self.folder, "bin")
        os.mkdir(alone)
        shutil.copy(TERN, alone)
        module = os.path.join(alone, "tern-torrent.so")
        mark, other = other_mark(os.path.join(os.path.dirname(TERN), "tern-torrent.so"), module)
        self.tern("pull", "magnet:?xt=urn:btih:" + "1" * 40, program=os.path.join(alone, "tern"), code=1)
        self.assertIn(f"{module} belongs to another build of Tern: {other} found, {mark} expected", self.said)


if __name__ == "__main__":
    unittest.main()
