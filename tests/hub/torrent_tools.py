"""BitTorrent in Python for tests: bencoding, the hashes of both versions (BEP 3, BEP 52), a web seed, and peers that
lie, leave or are slow. It shares no code with Tern and libtorrent."""
import hashlib
import http.server
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse

BLOCK = 16384


def encode(value):
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"%d:%s" % (len(value), value)
    if isinstance(value, list):
        return b"l" + b"".join(map(encode, value)) + b"e"
    keys = sorted((key.encode() if isinstance(key, str) else key, key) for key in value)
    return b"d" + b"".join(encode(raw) + encode(value[key]) for raw, key in keys) + b"e"


def decode(data, at=0):
    """A value and where it ends; texts are bytes. Keys must be in order, each once."""
    kind = data[at:at + 1]
    if kind == b"i":
        end = data.index(b"e", at)
        return int(data[at + 1:end]), end + 1
    if kind in (b"l", b"d"):
        items, at = [], at + 1
        while data[at:at + 1] != b"e":
            item, at = decode(data, at)
            items.append(item)
        if kind == b"l":
            return items, at + 1
        keys = items[::2]
        assert keys == sorted(set(keys))
        return dict(zip(keys, items[1::2])), at + 1
    colon = data.index(b":", at)
    end = colon + 1 + int(data[at:colon])
    return data[colon + 1:end], end


def tree_root(leaves):
    """The root over hashes, filled up with `zero` to a power of two."""
    leaves, zero = list(leaves), bytes(32)
    while len(leaves) & (len(leaves) - 1):
        leaves.append(zero)
    while len(leaves) > 1:
        leaves = [hashlib.sha256(leaves[i] + leaves[i + 1]).digest() for i in range(0, len(leaves), 2)]
    return leaves[0]


def piece_layer(data, piece):
    """The hash of each piece of a file by version 2; of a shorter file its root."""
    blocks = [hashlib.sha256(data[i:i + BLOCK]).digest() for i in range(0, len(data), BLOCK)]
    per = piece // BLOCK
    if len(data) <= piece:
        return [tree_root(blocks)]
    return [tree_root(blocks[i:i + per] + [bytes(32)] * (per - len(blocks[i:i + per]))) for i in
            range(0, len(blocks), per)]


def file_root(data, piece):
    layer = piece_layer(data, piece)
    if len(layer) == 1:
        return layer[0]
    empty = tree_root([bytes(32)] * (piece // BLOCK))
    while len(layer) & (len(layer) - 1):
        layer.append(empty)
    return tree_root(layer)


def stream(info, folder):
    """The bytes that version 1 cuts into pieces."""
    out = bytearray()
    for file in info[b"files"]:
        if b"p" in file.get(b"attr", b""):
            out += bytes(file[b"length"])
        else:
            with open(os.path.join(folder, *(part.decode() for part in file[b"path"])), "rb") as data:
                out += data.read()
    return bytes(out)


def version_1(files, piece=BLOCK, name="p", **more):
    """A .torrent of files [(path parts, bytes, more fields)], by version 1 alone."""
    data = b"".join(row[1] for row in files)
    pieces = b"".join(hashlib.sha1(data[i:i + piece]).digest() for i in range(0, len(data), piece))
    rows = [{"path": list(row[0]), "length": len(row[1]), **(row[2] if len(row) > 2 else {})} for row in files]
    return encode({"info": {"name": name, "piece length": piece, "pieces": pieces, "files": rows}, **more})


class WebSeed:
    """Serves a folder with ranges; `hold` after so many bytes of all: the connection stays open and gives no more."""

    def __init__(self, folder, address="127.0.0.1"):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                outer.answer(self)

        self.folder, self.served, self.hold, self.requests = folder, 0, None, []
        self.spoil = {}  # name of a file: bytes in place of its own
        self.held = threading.Event()
        self.free = threading.Event()
        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *words: None  # who asks may go away
        self.url = "http://%s:%d/" % self.server.server_address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler):
        path = urllib.parse.unquote(handler.path).lstrip("/")
        self.requests.append(path)
        try:
            with open(os.path.join(self.folder, path), "rb") as file:
                data = self.spoil.get(os.path.basename(path), file.read())
        except OSError:
            handler.send_error(404)
            return
        first, last, asked = 0, len(data) - 1, handler.headers.get("Range")
        if asked:
            first, last = (int(end) if end else given for end, given in zip(asked[6:].split("-"), (first, last)))
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Length", str(last - first + 1))
        if asked:
            handler.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, len(data)))
        handler.end_headers()
        for at in range(first, last + 1, BLOCK):
            if self.hold is not None and self.served >= self.hold:
                self.held.set()
                self.free.wait()
                return
            part = data[at:min(at + BLOCK, last + 1)]
            try:
                handler.wfile.write(part)
            except OSError:
                return
            self.served += len(part)

    def close(self):
        self.free.set()
        self.server.shutdown()
        self.server.server_close()


class Peer:
    """One that calls another peer and says that it has everything."""

    def __init__(self, torrent, folder, bind, to):
        with open(torrent, "rb") as file:
            data = file.read()
        info = decode(data)[0][b"info"]
        self.data, self.piece = stream(info, folder), info[b"piece length"]
        self.socket = socket.create_connection(to, source_address=(bind, 0), timeout=60)
        hashed = hashlib.sha1(encode(info)).digest()
        self.socket.sendall(b"\x13BitTorrent protocol" + bytes(8) + hashed + b"-PY0001-" + os.urandom(12))
        self.read(68)
        n = (len(self.data) + self.piece - 1) // self.piece
        bits = bytearray((n + 7) // 8)
        for i in range(n):
            bits[i // 8] |= 128 >> i % 8
        self.send(5, bytes(bits))
        self.send(1)

    def read(self, n):
        out = b""
        while len(out) < n:
            part = self.socket.recv(n - len(out))
            if not part:
                raise ConnectionError
            out += part
        return out

    def send(self, kind, body=b""):
        self.socket.sendall(struct.pack(">IB", len(body) + 1, kind) + body)

    def next_request(self):
        while True:
            size = struct.unpack(">I", self.read(4))[0]
            message = self.read(size)
            if message[:1] == b"\x06":
                return struct.unpack(">III", message[1:])

    def give(self, request, spoiled=False):
        index, begin, length = request
        block = self.data[index * self.piece + begin:][:length]
        if spoiled:
            block = bytes(byte ^ 0x55 for byte in block)
        self.send(7, struct.pack(">II", index, begin) + block)


def main(kind, torrent, folder, bind, address, port):
    """A process that is one peer; it says `gave` when it has given a block."""
    peer, given = Peer(torrent, folder, bind, (address, int(port))), 0
    try:
        while True:
            request = peer.next_request()
            if kind == "slow" and given:
                time.sleep(0.2)
            peer.give(request, spoiled=kind == "liar")
            given += 1
            if given == 1:
                print("gave", flush=True)
            if kind == "leaver" and given == 3:
                return
    except OSError:
        pass
    finally:
        print("gave %d" % given, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
