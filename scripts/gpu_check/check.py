"""Parts that all stages share: commands with time limits, and results that are written at once, since a job may end at
any time."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
NO_TIME = "not begun: the time of the stage is used up"
LEAST_SECONDS = 15  # with less time left, a command is not started
TAIL_LINES = 25
MOST_LOGGED = 200_000  # characters of a command's stream in log.txt: its beginning and its end
HIDDEN = ("stage", "name", "status", "seconds", "exit_code", "traceback")  # left out of the line on the screen


def end_group(process, number):
    """Sends the signal to the command and to all processes that it has started, and waits a little for the command to
    end."""
    try:
        os.killpg(process.pid, number)
        process.wait(5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


class Ended:
    """A command that has ended, or that was ended at its time limit."""

    def __init__(self, command, code, seconds, log, reason):
        """code: None if the command was not started, or was ended at its limit. log: the files log.out and log.err have
        its output. reason: why it failed; None if it did not fail."""
        self.command, self.code, self.seconds, self.log, self.reason = command, code, seconds, log, reason

    @property
    def ok(self):
        return self.reason is None

    def text(self, stream="out"):
        return pathlib.Path(f"{self.log}.{stream}").read_text(errors="replace")

    def json(self):
        """The JSON object that a program printed as its last line."""
        lines = [line for line in self.text().splitlines() if line.startswith("{")]
        if not lines:
            raise ValueError(f"no JSON object in {self.log}.out")
        return json.loads(lines[-1])

    def tail(self):
        return {stream: self.text(stream).splitlines()[-TAIL_LINES:] for stream in ("out", "err")}


def shortened(text):
    half = MOST_LOGGED // 2
    return text if len(text) <= MOST_LOGGED else f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


class Check:
    """One run of gpu-check.sh: its folders, its programs, its time, its results. out: has few files, which are written as
    results come. work: for all other files."""

    def __init__(self, out, work, node, seconds, quick):
        self.out, self.work, self.node, self.quick = pathlib.Path(out), pathlib.Path(work), node, quick
        self.logs = self.work / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + seconds
        self.stage, self.stage_end, self.stage_seconds = "", self.end, seconds
        self.results = []
        # Set by the stage `machine`: whether the programs run here, and why they find no GPU ("": they find one).
        self.programs_run, self.gpu = False, None
        self.lock = threading.Lock()
        self.file = open(self.out / "results.jsonl", "w", buffering=1)
        self.log = open(self.out / "log.txt", "w", buffering=1)

    def begin(self, stage, seconds):
        self.stage_seconds = seconds
        self.stage, self.stage_end = stage, min(self.end, time.monotonic() + seconds)
        print(f"=== {stage} (at most {max(0, self.stage_end - time.monotonic()):.0f} s)", flush=True)

    def left(self):
        """Seconds that the present stage still has."""
        return self.stage_end - time.monotonic()

    def run(self, name, command, limit=3600.0, env=None, cwd=None):
        """Runs a command; its output is in log.txt when it has ended. At the limit its whole group is ended."""
        done = self.run_unlogged(name, command, limit, env, cwd)
        text = f"##### {self.stage}: {name}: {done.reason or 'done'} in {done.seconds:.1f} s: {' '.join(done.command)}\n"
        for stream in ("out", "err"):
            text += f"--- std{stream}\n{shortened(done.text(stream))}\n" if done.text(stream) else ""
        with self.lock:
            self.log.write(text)
        return done

    def run_unlogged(self, name, command, limit, env, cwd):
        log = self.logs / re.sub(r"[^A-Za-z0-9._-]+", "_", f"{self.stage}-{name}")
        command = [str(c) for c in command]
        limit = min(limit, self.left())
        needed = min(LEAST_SECONDS, self.stage_seconds / 2)
        start = time.monotonic()
        with open(f"{log}.out", "w") as out, open(f"{log}.err", "w") as err:
            if limit < needed:
                return Ended(command, None, 0.0, log, NO_TIME)
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd,
                                           env={**self.node.env, **(env or {})}, start_new_session=True)
            except OSError as e:
                return Ended(command, None, 0.0, log, f"cannot be started: {e}")
            try:
                code = process.wait(limit)
                reason = None if code == 0 else f"exit code {code}" if code > 0 else f"ended by signal {-code}"
            except subprocess.TimeoutExpired:
                code, reason = None, f"ended after its limit of {limit:.0f} s"
                end_group(process, signal.SIGTERM)  # mpirun then ends its ranks, which are separate process groups
            end_group(process, signal.SIGKILL)  # ends all remaining processes
        return Ended(command, code, time.monotonic() - start, log, reason)

    def record(self, name, status, ended=None, **values):
        """Writes one line of results.jsonl. For a failure, the line also has the command and the last lines of its
        output."""
        result = {"stage": self.stage, "name": name, "status": status, **values}
        if ended is not None:
            result["seconds"] = round(ended.seconds, 3)
            if status == FAILED and ended.reason == NO_TIME:
                result.update(status=SKIPPED, reason=NO_TIME)
            elif status == FAILED:
                if not ended.ok:
                    result.setdefault("reason", ended.reason)
                result.update(command=ended.command, exit_code=ended.code, tail=ended.tail())
        with self.lock:
            self.results.append(result)
            self.file.write(json.dumps(result) + "\n")
            said = {k: v for k, v in result.items() if k not in HIDDEN and isinstance(v, (str, int, float))}
            shown = ", ".join(f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in said.items())
            print(f"{result['status']:>7}  {name}" + (f": {shown}" if shown else ""), flush=True)
        return result

    def found(self, stage, name=None):
        """The last result of that stage and name, or None."""
        for result in reversed(self.results):
            if result["stage"] == stage and name in (None, result["name"]):
                return result
        return None
