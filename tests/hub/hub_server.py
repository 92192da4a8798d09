"""A server with the paths of the Hugging Face hub, on a port of this machine, and the faults that tests ask of it."""
import hashlib
import http.server
import json
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sum(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """Files by path; those of LFS are redirected to another host name, as the hub does."""

    def __init__(self, files, lfs=(".gguf", ".safetensors"), gated=False):
        self.files, self.gated, self.commit = dict(files), gated, COMMIT
        self.lfs = lfs
        self.claims = {}  # path: what the list says otherwise ({"size": ...}, {"sum": ...})

    def row(self, path):
        data, claim = self.files[path], self.claims.get(path, {})
        size = claim.get("size", len(data))
        if path.endswith(self.lfs):
            sum256 = claim.get("sum", hashlib.sha256(data).hexdigest())
            return {"rfilename": path, "size": size, "blobId": "0" * 40,
                    "lfs": {"sha256": sum256, "size": size, "pointerSize": 130}}
        return {"rfilename": path, "size": size, "blobId": claim.get("sum", git_sum(data))}

    def listing(self):
        return {"id": "x", "sha": self.commit, "siblings": [self.row(path) for path in self.files]}


class Hub:
    def __init__(self):
        self.repositories, self.requests = {}, []
        self.token = None           # what opens gated repositories
        self.cut = []               # of the next file answers: bytes after which the connection is cut
        self.ranges = True          # False: every answer is the whole file
        self.statuses = []          # of the next file answers: errors in place of the file
        self.hold = None            # an event that file answers wait for in their middle
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.answer(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients that go away are part of the tests
        self.port = self.server.server_address[1]
        self.endpoint = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def error(self, handler, status, code=None):
        body = b'{"error": "an error"}'
        handler.send_response(status)
        if code:
            handler.send_header("X-Error-Code", code)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def answer(self, handler):
        path = handler.path.split("?")[0].strip("/")
        given = handler.headers.get("Authorization")
        self.requests.append((handler.headers.get("Host"), path, handler.headers.get("Range"), given))
        if path.startswith("cdn/"):
            return self.give_file(handler, path[4:])
        is_list = path.startswith("api/models/")
        name = "/".join(path[len("api/models/") if is_list else 0:].split("/")[:2])
        repository = self.repositories.get(name)
        if repository is None:
            return self.error(handler, 401 if not given else 404, "RepoNotFound")
        if repository.gated and not is_list and given != "Bearer %s" % self.token:
            return self.error(handler, 403 if given else 401, "GatedRepo")
        if is_list:
            if path.split("/revision/")[1] not in ("main", repository.commit):
                return self.error(handler, 404, "RevisionNotFound")
            return self.give(handler, json.dumps(repository.listing()).encode())
        file = path.split("/resolve/%s/" % repository.commit)[1].replace("%20", " ")
        if file not in repository.files:
            return self.error(handler, 404, "EntryNotFound")
        if file.endswith(repository.lfs):
            handler.send_response(302)
            handler.send_header("Location", "http://localhost:%d/cdn/%s/%s" % (self.port, name, file))
            handler.send_header("X-Linked-Etag", hashlib.sha256(repository.files[file]).hexdigest())
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        self.give_file(handler, "%s/%s" % (name, file))

    def give_file(self, handler, path):
        name = "/".join(path.split("/")[:2])
        data = self.repositories[name].files[path[len(name) + 1:].replace("%20", " ")]
        if self.statuses:
            return self.error(handler, self.statuses.pop(0))
        self.give(handler, data, handler.headers.get("Range") if self.ranges else None, self.cut)

    def give(self, handler, data, wanted=None, cut=None):
        start = int(wanted[len("bytes="):-1]) if wanted else 0
        handler.send_response(206 if wanted else 200)
        if wanted:
            handler.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data)))
        body = data[start:]
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if cut:
            body = body[:cut.pop(0)]
            handler.close_connection = True
        half = len(body) // 2
        handler.wfile.write(body[:half])
        if self.hold and cut is not None:
            handler.wfile.flush()
            self.hold.wait()
        handler.wfile.write(body[half:])
