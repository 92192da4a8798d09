#!/usr/bin/env python3
"""Reads and changes the seeds of the fuzzers: tests/fuzz/corpus/NAME.tar has those of tests/fuzz/fuzz_NAME.c.

    scripts/fuzz_seeds.py list [NAME...]                 fuzzer, bytes and name of each seed
    scripts/fuzz_seeds.py extract NAME FOLDER [SEED...]  writes the seeds (default: all) into a folder
    scripts/fuzz_seeds.py add NAME FILE...               adds files under their names, except bytes that a seed has
    scripts/fuzz_seeds.py remove NAME SEED...            takes seeds out
    scripts/fuzz_seeds.py unique [NAME...]               takes out seeds whose bytes an earlier one has
    scripts/fuzz_seeds.py check [NAME...]                fails where an archive is not as this script writes it

An archive is a plain tar file (ustar, uncompressed: git packs it), sorted by name and without times or owners: the same
seeds are the same bytes, and a new seed leaves those of the others as they are. `tar -tf` and `tar -xf` read it.
--corpus FOLDER, before the command, takes another folder of archives.
"""
import argparse
import io
import pathlib
import sys
import tarfile

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "tests/fuzz/corpus"


def archive_of(corpus, name):
    return pathlib.Path(corpus) / f"{name}.tar"


def unpack(archive):
    """{name: bytes} of the files in the bytes of an archive, in their order."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def pack(seeds):
    """The bytes of the archive with these seeds, {name: bytes}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(seeds):
            member = tarfile.TarInfo(name)
            member.size = len(seeds[name])
            tar.addfile(member, io.BytesIO(seeds[name]))
    return out.getvalue()


def read(corpus, name):
    path = archive_of(corpus, name)
    if not path.exists():
        sys.exit(f"fuzz_seeds: {path}: no such archive")
    return unpack(path.read_bytes())


def add(corpus, name, files):
    """Adds files, {name: bytes}; makes the archive where there is none. Returns how many were new."""
    seeds = read(corpus, name) if archive_of(corpus, name).exists() else {}
    known, before = set(seeds.values()), len(seeds)
    for seed, data in files.items():
        if data in known:
            continue
        if seed in seeds:
            sys.exit(f"fuzz_seeds: {name}: {seed} is the name of another seed; rename the file")
        seeds[seed] = data
        known.add(data)
    archive_of(corpus, name).write_bytes(pack(seeds))
    return len(seeds) - before


def command_list(args):
    for name in args.names:
        for seed, data in read(args.corpus, name).items():
            print(f"{name}\t{len(data)}\t{seed}")


def chosen(name, seeds, wanted):
    missing = [seed for seed in wanted if seed not in seeds]
    if missing:
        sys.exit(f"fuzz_seeds: {name} has no seed {missing[0]}; list NAME prints those it has")
    return wanted


def command_extract(args):
    seeds, folder = read(args.corpus, args.name), pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in chosen(args.name, seeds, args.seeds or list(seeds)):
        (folder / seed).write_bytes(seeds[seed])


def command_add(args):
    n = add(args.corpus, args.name, {path.name: path.read_bytes() for path in args.files})
    print(f"{args.name}: {n} added, {len(args.files) - n} known")


def command_remove(args):
    seeds = read(args.corpus, args.name)
    for seed in chosen(args.name, seeds, args.seeds):
        del seeds[seed]
    archive_of(args.corpus, args.name).write_bytes(pack(seeds))


def command_unique(args):
    for name in args.names:
        seeds = read(args.corpus, name)
        first = {data: seed for seed, data in reversed(sorted(seeds.items()))}
        archive_of(args.corpus, name).write_bytes(pack({seed: data for data, seed in first.items()}))
        print(f"{name}: {len(seeds) - len(first)} removed, {len(first)} left")


def command_check(args):
    wrong = []
    for name in args.names:
        archive = archive_of(args.corpus, name).read_bytes()
        seeds = unpack(archive)
        if archive != pack(seeds):
            wrong.append(f"{name}.tar: not as `scripts/fuzz_seeds.py add` writes it: sorted, without times and owners")
        if len(set(seeds.values())) < len(seeds):
            wrong.append(f"{name}.tar: two seeds have the same bytes; scripts/fuzz_seeds.py unique {name}")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, default=CORPUS)
    commands = parser.add_subparsers(required=True)
    for command, words in ((command_list, ["names*"]), (command_extract, ["name", "folder", "seeds*"]),
                           (command_add, ["name", "files+"]), (command_remove, ["name", "seeds+"]),
                           (command_unique, ["names*"]), (command_check, ["names*"])):
        sub = commands.add_parser(command.__name__[len("command_"):])
        sub.set_defaults(run=command)
        for word in words:
            many = {"nargs": word[-1]} if word[-1] in "*+" else {}
            sub.add_argument(word.rstrip("*+"), type=pathlib.Path if word == "files+" else str, **many)
    args = parser.parse_args()
    if "names" in args and not args.names:
        args.names = sorted(path.stem for path in args.corpus.glob("*.tar"))
    args.run(args)


if __name__ == "__main__":
    main()
