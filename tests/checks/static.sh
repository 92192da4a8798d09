#!/bin/sh
# The static command in an empty system: a chroot with nothing but what the Containerfile copies there. It needs no
# library, writes what the other command writes, serves, and says by name what it lacks.
# Usage: static.sh CMAKE BUILD_FOLDER PYTHON TERN [EMULATOR]   (TERN: a command of this machine, to compare with, or "")
set -eu
cmake=$1 build=$2 python=$3 tern=$4 emulator=${5:-}
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$build/scratch/static
rm -rf "$root"
mkdir -p "$root"
image=$source/examples/serve/Containerfile
grep -q '^COPY build/static/root /$' "$image" # what is installed here is what the image gets
"$cmake" --install "$build" --component alone --prefix "$root" >"$build/scratch/static.log"
program=$root/bin/tern

if readelf --wide --program-headers --dynamic "$program" | grep -E 'INTERP|NEEDED'; then
    echo "$program asks for a loader or a library"
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! unshare --map-root-user true 2>/dev/null; then
        echo "Neither root nor user namespaces: the static command is not tried in a chroot"
        [ "${CI:-}" != true ]
        exit
    fi
    as_root="$(command -v unshare) --map-root-user"
fi
if [ -n "$emulator" ]; then cp "$(command -v "$emulator")" "$root/emulator"; fi
chroot=$(command -v chroot || echo /usr/sbin/chroot)
# shellcheck disable=SC2086 # words
# inside WORDS...: the command in the chroot, without an environment.
inside() { env -i $as_root "$chroot" "$root" ${emulator:+/emulator} /bin/tern "$@"; }

# refused WORDS BY EXPECTED WORDS: it ends with an error that has these words.
refused() {
    expected=$1
    shift
    if said=$(inside "$@" 2>&1); then echo "tern $*: an error expected"; exit 1; fi
    case $said in *"$expected"*) ;; *) echo "tern $*: $said; '$expected' expected"; exit 1 ;; esac
}

about=$(inside version)
echo "$about"
case $about in *"without: vulkan, cuda, pull, serve --tls-cert (one static file"*) ;; *) exit 1 ;; esac
text=$(inside run "Once upon a time" -n 16 --greedy -q)
if [ -n "$tern" ]; then
    other=$("$tern" run -m "$source/models/stories.gguf" "Once upon a time" -n 16 --greedy -q)
    [ "$text" = "$other" ] || { echo "'$text' found, '$other' expected"; exit 1; }
fi
case $text in *[a-z]*) ;; *) echo "it wrote '$text'"; exit 1 ;; esac
refused 'vulkan' run x --backend vulkan
refused 'cuda' run x --backend cuda
refused 'without libcurl (it is one static file)' pull hf:a/b
refused 'has no TLS' serve --tls-cert /bin/tern --tls-key /bin/tern

# What the image's ENTRYPOINT and CMD start answers from within the chroot.
echo secret >"$root/keys"
"$python" - "$image" "$root" ${emulator:+/emulator} <<'END'
import json, os, subprocess, sys, urllib.request
lines = dict(line.split(" ", 1) for line in open(sys.argv[1]) if line.split(" ", 1)[0] in ("ENTRYPOINT", "CMD"))
words = json.loads(lines["ENTRYPOINT"]) + json.loads(lines["CMD"])
words[words.index("--port") + 1] = "0"
words[words.index("--host") + 1] = "127.0.0.1"
outer = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
server = subprocess.Popen([*outer, "/usr/sbin/chroot", sys.argv[2], *sys.argv[3:], *words], env={},
                          stderr=subprocess.PIPE, text=True)
try:
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}).encode()
    said = server.stderr.readline()
    assert "listening on http://" in said, said + server.stderr.read()
    address = said.split()[-1] + "/v1/chat/completions"
    ask = urllib.request.Request(address, body, {"Content-Type": "application/json", "Authorization": "Bearer secret"})
    answer = json.load(urllib.request.urlopen(ask, timeout=60))
finally:
    server.terminate()
    server.wait(30)
text = answer["choices"][0]["message"]["content"]
assert text, answer
print("serves: %r" % text)
END
