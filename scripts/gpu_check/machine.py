"""Stage `machine`: facts about the node, and whether the programs find a GPU. All other stages depend on this."""

import json
import os
import platform
import re
import sys

from .check import FAILED, PASSED, SKIPPED

SMI = ("name", "driver_version", "memory.total", "compute_cap", "clocks.sm", "clocks.max.sm", "clocks.mem", "clocks.max.mem",
       "power.limit", "temperature.gpu", "persistence_mode", "compute_mode", "mig.mode.current", "ecc.mode.current")

# Runs in a process with the programs' LD_LIBRARY_PATH: prints the versions of the libraries that the programs load.
VERSIONS = """
import ctypes, json, re, subprocess, sys
found, seen = {}, subprocess.run(["ldd", sys.argv[1]], text=True, stdout=subprocess.PIPE).stdout
for library, path in re.findall(r"(lib(?:cudart|cublasLt|cusolver|cudnn|nccl|mpi|nvrtc)[^ ]*) => ([^\\n(]+)", seen):
    found[library] = {"path": path.strip()}
def ask(name, function, **options):
    for library, what in found.items():
        if library.startswith(name + "."):
            try:
                f = getattr(ctypes.CDLL(what["path"]), function)
                if options.get("pointer"):
                    number = ctypes.c_int()
                    f(ctypes.byref(number))
                    what["version"] = number.value
                else:
                    f.restype = ctypes.c_size_t
                    what["version"] = f()
            except (OSError, AttributeError) as e:
                what["error"] = str(e)
ask("libcudnn", "cudnnGetVersion")
ask("libcublasLt", "cublasLtGetVersion")
ask("libnccl", "ncclGetVersion", pointer=True)
ask("libcudart", "cudaRuntimeGetVersion", pointer=True)
print(json.dumps(found))
"""


def smi(check):
    """The facts that nvidia-smi prints for each GPU."""
    tool = check.node.tool("nvidia-smi")
    if not tool:
        return "no nvidia-smi"
    done = check.run("nvidia-smi", [tool, f"--query-gpu={','.join(SMI)}", "--format=csv,noheader"], 60)
    if not done.ok:
        return f"{done.reason}: {done.text().strip()} {done.text('err').strip()}"
    return [dict(zip(SMI, (v.strip() for v in line.split(",")))) for line in done.text().splitlines()]


def first_line_with(check, name, command, pattern):
    if not command[0]:
        return None
    done = check.run(name, command, 20)
    return next((line.strip() for line in done.text().splitlines() if re.search(pattern, line)), done.reason)


def facts(check):
    """Records versions and paths, for readers on other machines."""
    bench = check.node.program("keelson-bench")
    versions = check.run("libraries", [sys.executable, "-c", VERSIONS, bench], 20)
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return {
        "gpus": smi(check),
        "nvcc": first_line_with(check, "nvcc", [check.node.tool("nvcc"), "--version"], "release"),
        "compute_sanitizer": first_line_with(check, "compute-sanitizer",
                                             [check.node.tool("compute-sanitizer"), "--version"], "[Vv]ersion"),
        "libraries": json.loads(versions.text()) if versions.ok else versions.reason,
        "library_folders": check.node.folders,
        "mpiexec": check.node.mpiexec(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "system": " ".join((platform.platform(), *platform.libc_ver())),
        "python": sys.version.split()[0],
        "keelson": first_line_with(check, "version", [bench, "--version"], r"\d"),
    }


def machine(check):
    probe(check)
    check.record("facts", PASSED, facts=facts(check))


def probe(check):
    """Runs a small step, before all else: a cold machine may need a minute to load the libraries."""
    bench = check.node.program("keelson-bench")
    done = check.run("probe", [bench, "step", "--size", 32, "--steps", 1, "--warmup", 0, "--json"],
                      env={"KEELSON_TUNE": "off", "KEELSON_VERBOSE": "1"})
    check.programs_run = done.ok
    if done.ok:
        device = done.json()["device"]
        check.gpu = "" if re.search(r"\bsm_\d", device) else f"this build computes on {device}"
        check.record("device", PASSED, done, device=device)
        return
    refusal = re.search(r"error: device 'cuda': (.*)", done.text("err"))
    if refusal and done.code == 2:
        check.gpu = refusal.group(1)
        check.record("device", SKIPPED, done, reason=f"no GPU: {check.gpu}")
    else:
        check.gpu = "the programs do not run here"
        missing = check.run("ldd", ["ldd", bench], 10)
        check.record("device", FAILED, done,
                     missing=[line.strip() for line in missing.text().splitlines() if "not found" in line])
