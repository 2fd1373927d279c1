"""Stages that run the project's own tests on the device: `ops`, `sanitizer`, and the MPI tests of `ranks`."""

import concurrent.futures
import json
import os
import re

from .check import FAILED, PASSED, SKIPPED

PROGRAMS = ("test_nets", "test_ops", "test_cuda", "test_train", "test_execute", "test_plan", "test_kokkos")  # the longest suites first
# These tests read source files, which an archive does not have.
NEED_SOURCES = "SupportTable.DocumentShowsIt:Checkpoint.ReadsOlderFilesOfThisFormat"
MOST_FAILURES = 20  # most failures of a suite in the results; its log has all
AT_A_TIME = max(2, min(8, len(os.sched_getaffinity(0)) // 2))  # processes that share the GPU
# Every sixteenth test of each kind of kernel: compute-sanitizer makes programs many times slower, so they must be
# small.
REDUCED = ("Softmax/*:Eltwise/*:Pool/*:Reorder/*:Sum/*:Concat/*:Update/*:UpdateRows/*:SumSquares/*:CheckGradients/*:"
           "Embedding/*:Dropout/*:Loss/*:RecurrentCell/*:Cases/*:ConvMaxPool/*:Conv/ConvOneCase.*:Dense/*:MatMul/*:Lamb/*")
# Tests of communication that work on a GPU's memory, or on the host's. Others make plans for ranks without a communicator
# for the GPU's memory.
MPI_TESTS = "Allreduce*:Collectives*:Communicator*:ExactSum*:*OnDevice*:ProcessGrid*:SumOrder*:Watchdog*"
# The kernels that use shared memory.
POOLED = "ConvMaxPool/PooledConvTest.*:ConvMaxPool/ArgmaxWeightsTest.*/*filters_*"
QUICK = ("Softmax/SoftmaxTest", "Eltwise", "Flops")  # suites of test_ops


def suites(check, program):
    """The names of a GoogleTest program's suites; None if it does not start."""
    listed = check.run(f"list {program}", [check.node.program(program), "--gtest_list_tests"], 30)
    if not listed.ok:
        check.record(program, FAILED, listed)
        return None
    return [line.strip().split()[0][:-1] for line in listed.text().splitlines() if line and not line.startswith(" ")]


def outcome(done, report):
    """The results of a GoogleTest program, also of one that crashed: counts, and failures."""
    started = re.findall(r"^\[ RUN      \] (\S+)", done.text(), re.M)
    found = {"tests": len(started), "skipped": len(set(re.findall(r"^\[  SKIPPED \] (\S+) \(", done.text(), re.M))),
             "failures": []}
    if report.exists():
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                if "failures" in test and len(found["failures"]) < MOST_FAILURES:
                    found["failures"].append({"test": f"{suite['name']}.{test['name']}",
                                              "why": [f["failure"][:2000] for f in test["failures"]]})
    elif not done.ok:
        found["failures"].append({"test": started[-1] if started else "before the first test", "why": [
            f"{done.reason}; the last lines: " + " | ".join(done.tail()["out"][-3:] + done.tail()["err"][-6:])]})
    return found


def run_suite(check, program, suite):
    """Runs a suite in a separate process, so that a suite that breaks the device does not affect the others."""
    name = f"{program} {suite}"
    report = check.logs / (re.sub(r"[^A-Za-z0-9._-]+", "_", f"{check.stage}-{name}") + ".json")
    done = check.run(name, [check.node.program(program), f"--gtest_filter={suite}.*:-{NEED_SOURCES}",
                            f"--gtest_output=json:{report}"], 120, {"KEELSON_TUNE": "off", "OMP_NUM_THREADS": "2"})
    found = outcome(done, report)
    check.record(name, PASSED if done.ok else FAILED, done, **found)


def ops(check):
    """Runs every suite of the tests that use the device. KEELSON_TUNE=off: uses the libraries' first proposals."""
    todo = []
    for program in PROGRAMS if not check.quick else ("test_ops",):
        if not check.node.program(program):
            if program != "test_cuda" or not check.gpu:
                check.record(program, FAILED, reason=f"{program} is not in {check.node.programs}; unpack the archive "
                                                     "...-check.tar.gz too")
            continue
        names = suites(check, program) or []
        todo += [(program, suite) for suite in names if not check.quick or suite in QUICK]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for waited in [pool.submit(run_suite, check, *work) for work in todo]:
            waited.result()


def is_clean(text):
    """Whether compute-sanitizer has printed a summary without errors."""
    summaries = re.findall(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) ", text, re.M)
    return bool(summaries) and set(summaries) == {"0"}


def sanitizer(check):
    """Runs compute-sanitizer on some tests of each kind of kernel, and on a whole small step. memcheck examines all
    kernels of Keelson, but not those of libraries; racecheck those that use shared memory (pooled_conv)."""
    tool = check.node.tool("compute-sanitizer")
    if not tool:
        check.record("compute-sanitizer", SKIPPED, reason="no compute-sanitizer, in PATH or CUDA_HOME")
        return
    step = [check.node.program("keelson-bench"), "step", "--size", 32, "--steps", 1, "--warmup", 2, "--precision", "bf16"]
    def tests(names):
        return [check.node.program("test_ops"), f"--gtest_filter={names}"]
    everything, pooled = ("cuda_parallel_launch", "pooled_conv"), ("pooled_conv",)
    runs = (("memcheck", "step", everything, step), ("memcheck", "ops", everything, tests(REDUCED)),
            ("memcheck", "pooled_conv", pooled, tests(POOLED)), ("racecheck", "pooled_conv", pooled, tests(POOLED)))
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        for wait in [pool.submit(examine, check, tool, *run) for run in runs]:
            wait.result()


def examine(check, tool, kind, name, kernels, command):
    """Runs a command below compute-sanitizer, which examines the kernels whose names contain one of these texts."""
    chosen = [part for kernel in kernels for part in ("--kernel-name", f"kns={kernel}")]
    env = {"KEELSON_TUNE": "off"}
    if kernels != ("pooled_conv",):
        env.update(GTEST_TOTAL_SHARDS="64" if check.quick else "16", GTEST_SHARD_INDEX="0")
    done = check.run(f"{kind} {name}", [tool, "--tool", kind, *chosen, "--error-exitcode", "99", "--print-limit", "20",
                                        *command], env=env)
    text = done.text() + done.text("err")
    clean = done.ok and is_clean(text)
    said = [line for line in text.splitlines() if line.startswith("=========")]
    check.record(f"{kind} {name}", PASSED if clean else FAILED, done, summary=said[-1:],
                 **({} if clean else {"found": said[:60]}))


def mpi_tests(check):
    """Runs the tests of communication between two ranks, which share the GPU here."""
    if not check.node.program("test_mpi") or not check.node.mpiexec():
        check.record("test_mpi", SKIPPED, reason="no test_mpi, or no mpirun")
        return
    done = check.run("test_mpi", [*check.node.mpiexec(), "-n", 2, check.node.program("test_mpi"),
                                  "--gtest_filter=" + ("CommunicatorTest.*" if check.quick else MPI_TESTS)],
                     env={"KEELSON_TUNE": "off", "OMP_NUM_THREADS": "1"})
    failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? ", done.text(), re.M)))
    check.record("test_mpi", PASSED if done.ok else FAILED, done, failures=failed)
    nccl = check.run("NCCL", [check.node.program("test_mpi"), "--gtest_filter=OnDeviceChoice.SumsByNcclOnRequest"], 60)
    found = outcome(nccl, check.logs / "none.json")
    called = nccl.ok and found["tests"] == 1 and found["skipped"] == 0
    check.record("NCCL", PASSED if called else SKIPPED if nccl.ok and (check.gpu or found["skipped"]) else FAILED, nccl,
                 **found, **({} if called else {"reason": "no GPU, or a build without NCCL"}))
