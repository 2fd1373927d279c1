"""gpu-check.sh: runs the stages in order, collects their results, and prints the table."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

from . import correctness, machine, speed, targets, training
from .check import FAILED, SKIPPED, Check
from .node import Node, Unusable, unpack


def two_ranks(check):
    training.ranks(check)
    correctness.mpi_tests(check)


class Stage:
    """seconds: the stage's time limit. needs_gpu: the stage has no meaning on a CPU, so it does not run there."""

    def __init__(self, name, seconds, needs_gpu, run):
        self.name, self.seconds, self.needs_gpu, self.run = name, seconds, needs_gpu, run


STAGES = [
    Stage("machine", 180, False, machine.machine),
    Stage("ops", 90, False, correctness.ops),
    Stage("bench", 130, False, speed.bench),
    Stage("torch", 85, False, speed.torch),
    Stage("accuracy", 45, False, training.accuracy),
    Stage("input", 40, False, training.input_from_files),
    Stage("replay", 40, True, training.replay),
    Stage("ranks", 45, False, two_ranks),
    Stage("kernels", 60, True, speed.kernels),
    Stage("sanitizer", 60, True, correctness.sanitizer),
    Stage("rest", 600, False, speed.rest),
]
EPILOG = """stages: """ + ", ".join(s.name for s in STAGES) + """

--out gets results.jsonl (one JSON object per result, in order of time) and log.txt (the output of every command), both
written as results come; gpu.csv (clocks, power and load); cache/ (the tuner's choices: KEELSON_CACHE=DIR/cache lets a later
check begin with them); and at the end summary.json (the machine, the targets, the failures) and table.txt.
exit codes: 0 all targets hold; 1 something failed; 2 the command line or the archive cannot be used; 77 nothing failed,
but something was skipped (all targets, if there is no GPU)."""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu-check.sh", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--archive", action="append", metavar="FILE",
                      help="archive made by cpack; repeat the option for each that belongs to it (-check, -nvidia)")
    what.add_argument("--programs", metavar="DIR", help="folder with the programs: bin/ of a build or of an unpacked "
                      "archive. Default: bin/ beside this script's folder, as in the archive")
    parser.add_argument("--out", default="gpu-check", metavar="DIR", help="folder for the results (default: %(default)s)")
    parser.add_argument("--work", metavar="DIR", help="existing folder for temporary files: up to 2 GB of universes, on a "
                        "file system of the node; default: TMPDIR, else /tmp")
    parser.add_argument("--stages", metavar="LIST",
                        help="run only these stages, in this order, e.g. torch,bench; `machine` always runs, first")
    parser.add_argument("--time-limit", type=float, default=530, metavar="SECONDS",
                        help="time limit of the whole check (default: %(default)s)")
    parser.add_argument("--stage-limit", type=float, metavar="SECONDS",
                        help="time limit of each stage, instead of its own")
    parser.add_argument("--quick", action="store_true",
                        help="use tiny sizes, to see whether the check itself works; takes a minute or less")
    options = parser.parse_args(arguments)
    names = [s.name for s in STAGES]
    chosen = options.stages.split(",") if options.stages else names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        parser.error(f"no stage '{unknown[0]}'; there are {', '.join(names)}")
    by_name = {s.name: s for s in STAGES}
    options.stages = [by_name[name] for name in ["machine"] + [name for name in chosen if name != "machine"]]
    return options


def programs_of(options, work):
    if options.archive:
        return unpack(options.archive, work / "archive") / "bin"
    if options.programs:
        return pathlib.Path(options.programs)
    beside = pathlib.Path(__file__).resolve().parents[2] / "bin"
    if not beside.is_dir():
        raise Unusable("neither --archive nor --programs is given, and this script does not lie in an unpacked archive")
    return beside


def run_stage(check, stage, limit):
    check.begin(stage.name, limit if limit and stage.name != "machine" else stage.seconds)
    if check.end - time.monotonic() < 2:
        check.record(stage.name, SKIPPED, reason="the time limit of the whole was reached")
    elif check.gpu and (stage.needs_gpu or not check.programs_run):
        check.record(stage.name, SKIPPED, reason=f"no GPU: {check.gpu}")
    else:
        try:
            stage.run(check)
        except Exception as e:  # a fault of one stage must not lose the results of the others
            check.record(stage.name, FAILED, reason=f"{type(e).__name__}: {e}", traceback=traceback.format_exc())


def monitor(check):
    """Starts nvidia-smi, which writes clocks, power and load to gpu.csv every second; None if it is not installed."""
    tool = check.node.tool("nvidia-smi")
    if not tool or check.gpu != "":
        return None
    query = "timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,memory.used"
    return subprocess.Popen([tool, f"--query-gpu={query}", "--format=csv", "-lms", "1000"], stdin=subprocess.DEVNULL,
                            stdout=open(check.out / "gpu.csv", "w"), stderr=subprocess.STDOUT)


def conclude(check, started):
    rows = targets.judge(check)
    failed = [r for r in check.results if r["status"] == FAILED]
    skipped = [r for r in check.results + rows if r["status"] == SKIPPED]
    code = 1 if failed or any(r["status"] == FAILED for r in rows) else 77 if skipped else 0
    facts = check.found("machine", "facts") or {}
    summary = {"exit_code": code, "gpu": check.gpu == "", "no_gpu": check.gpu or None, "quick": check.quick,
               "seconds": round(time.monotonic() - started, 1), "machine": facts.get("facts"), "targets": rows,
               "failed": failed, "skipped": [{k: r.get(k) for k in ("stage", "name", "reason")}
                                             for r in check.results if r["status"] == SKIPPED]}
    (check.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    text = targets.table(rows)
    (check.out / "table.txt").write_text(text + "\n")
    print(f"\n{text}\n", flush=True)
    if check.gpu:
        print(f"No GPU: {check.gpu}")
    for r in failed:
        print(f"failed: {r['stage']}: {r['name']}: {r.get('reason', 'see results.jsonl')}")
    print(f"Results: {check.out}; to have failures analysed, send this folder.", flush=True)
    return code


def check_in(options, out, work, started):
    """Runs the stages, with the folder `work` for all files but the results. Returns the exit code."""
    try:
        node = Node(programs_of(options, work), out)
    except Unusable as e:
        print(f"gpu-check: error: {e}", file=sys.stderr)
        return 2
    check = Check(out, work, node, options.time_limit - (time.monotonic() - started), options.quick)
    watch = None
    for stage in options.stages:
        run_stage(check, stage, options.stage_limit)
        if stage.name == "machine":
            watch = monitor(check)
    if watch:
        watch.terminate()
        watch.wait()
    return conclude(check, started)


def main(arguments=None):
    started = time.monotonic()
    options = parse(arguments)
    out = pathlib.Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", dir=options.work) as work:
        return check_in(options, out, pathlib.Path(work), started)


if __name__ == "__main__":
    sys.exit(main())
