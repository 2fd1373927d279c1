#!/usr/bin/env python3
"""lint.py BUILD CACHE: runs clang-tidy on the sources of BUILD's compile database, from the repository's root.

A source that passed is checked again only if its command, .clang-tidy or one of the project's files that it includes
changes: CACHE keeps an empty file per passed state.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys


def dependencies(build: pathlib.Path, root: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """The project's files from which each object was compiled, as Ninja recorded them."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    found: dict[str, list[pathlib.Path]] = {}
    files: list[pathlib.Path] = []
    for line in listing.splitlines():
        if line and not line.startswith(" "):
            files = found.setdefault(line.split(":")[0], [])
        elif line.strip():
            file = pathlib.Path(os.path.normpath(build / line.strip()))
            if file.is_relative_to(root):
                files.append(file)
    return found


def is_ours(entry: dict, build: pathlib.Path) -> bool:
    """Whether to check this entry: a source, or a unity source. Not sources that only include a header, which others
    include, too; no Fortran."""
    file = pathlib.Path(entry["file"])
    return file.suffix != ".f90" and (not file.is_relative_to(build) or "Unity" in file.parts)


def files_of(entry: dict, build: pathlib.Path, objects: dict[str, list[pathlib.Path]]) -> list[pathlib.Path]:
    """The files from which the source was compiled. CMake names the object by an absolute path or by a path relative to
    the build."""
    name = (build / entry["output"]).relative_to(build)
    if not objects.get(str(name)):
        sys.exit(f"lint: Ninja knows no files of {name}; build first, or remove {build} and build anew")
    return objects[str(name)]


def state(entry: dict, files: list[pathlib.Path], common: bytes) -> str:
    digest = hashlib.sha256(common + entry["command"].encode())
    for file in sorted({pathlib.Path(entry["file"]), *files}):
        digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()


def check(entry: dict, build: pathlib.Path, extra: list[str], passed: pathlib.Path) -> str:
    """The output of clang-tidy; empty if it has no complaints, or had none when the source was last in this state."""
    if passed.exists():
        return ""
    result = subprocess.run(["clang-tidy", "-p", build, "--quiet", *extra, entry["file"]], capture_output=True, text=True)
    if result.returncode == 0:
        passed.touch()
        return ""
    return result.stdout or result.stderr


def main() -> int:
    build, cache = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    root = pathlib.Path.cwd()
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    common = version + (root / ".clang-tidy").read_bytes()
    # Clang looks for omp.h in its own headers; if it has none, GCC's is used, after all other folders.
    gcc_headers = subprocess.run(["c++", "-print-file-name=include"], check=True, capture_output=True, text=True).stdout
    extra = [f"--extra-arg=-idirafter{gcc_headers.strip()}", "--extra-arg=-Wno-unknown-warning-option"]

    objects = dependencies(build, root)
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text()) if is_ours(entry, build)]
    complaints = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        states = [state(entry, files_of(entry, build, objects), common) for entry in entries]
        jobs = [pool.submit(check, e, build, extra, cache / s) for e, s in zip(entries, states)]
        for job in concurrent.futures.as_completed(jobs):
            if job.result():
                complaints += 1
                print(job.result(), flush=True)
    print(f"clang-tidy: {len(entries) - complaints} of {len(entries)} translation units are clean")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
