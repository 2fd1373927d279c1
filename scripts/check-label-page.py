#!/usr/bin/env python3
"""Opens the page of keelson-label in Chromium, without a screen, and labels with it.

usage: check-label-page.py [--chromium COMMAND] [--images N]

Needs keelson-label in PATH and Chromium; without one of them it says so and ends well. Checks that

- the page of a project with 50,000 images is painted within a second, and shows thumbnails wherever it is scrolled to,
- 60 labels by keys take less than a minute and are in the project's journal, and undo takes one back,
- several images are labelled by one key, keys can be changed, and nothing but the page's own server is asked,
- the page of `suggest --page` keeps labels without a server, and gives them back as CSV.
"""

import argparse
import base64
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request


class Browser:
    """Chromium's DevTools protocol: JSON in the messages of a WebSocket (RFC 6455)."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(
            [*command, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
             "--window-size=1280,900", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        file, deadline = folder / "DevToolsActivePort", time.time() + 60
        while not file.exists() or len(file.read_text().split()) < 2:
            if self.process.poll() is not None or time.time() > deadline:
                raise SystemExit("chromium did not start")
            time.sleep(0.1)
        port = int(file.read_text().split()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(p for p in json.load(answer) if p["type"] == "page")
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        path = page["webSocketDebuggerUrl"].split(f":{port}", 1)[1]
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(65536)
        self.buffer = self.buffer.split(b"\r\n\r\n", 1)[1]
        self.last, self.asked, self.errors = 0, [], []
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def take(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(1 << 20)
            if not more:
                raise SystemExit("chromium has ended")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def message(self):
        text, final = b"", False
        while not final:
            first, length = self.take(2)
            final, length = bool(first & 0x80), length & 0x7F
            if length == 126:
                length = struct.unpack(">H", self.take(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self.take(8))[0]
            text += self.take(length)
        return json.loads(text)

    def call(self, method, **parameters):
        self.last += 1
        payload = json.dumps({"id": self.last, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        head = b"\x81" + (bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload)))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))
        while True:
            message = self.message()
            if message.get("method") == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            elif message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))
            elif message.get("id") == self.last:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, script, seconds=30):
        deadline = time.time() + seconds
        while not self.run(script):
            if time.time() > deadline:
                raise SystemExit(f"not within {seconds} s: {script}")
            time.sleep(0.02)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && document.body.dataset.ready === 'yes'")

    def key(self, key, modifiers=0):
        named = {"Backspace": 8, "ArrowRight": 39}
        text = {} if key in named else {"text": key}
        code = named.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def end(self):
        try:
            self.call("Browser.close")
        except SystemExit:
            pass
        self.process.wait(20)


def check(right, what):
    print(f"{'ok' if right else 'WRONG'}: {what}", flush=True)
    if not right:
        raise SystemExit(1)


def keelson(*arguments):
    subprocess.run(["keelson-label", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def make_project(folder, count):
    """Noise of 16 x 16 pixels; every other image has a bright square."""
    numbers, noise = random.Random(1), bytes(b % 32 for b in range(256))
    bright = [i // 16 in range(4, 12) and i % 16 in range(4, 12) for i in range(256)]
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 16, 16), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with (folder / "images.npy").open("wb") as file:  # NumPy's format, version 1
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for i in range(count):
            image = numbers.randbytes(256).translate(noise)
            file.write(bytes(v + 60 * (b and i % 2 == 0) for v, b in zip(image, bright)))
    keelson("start", "--project", folder / "project", "--images", folder / "images.npy", "--classes", "plain,square", "--features",
            "pixels", "--pixels", 8, "--members", 2, "--epochs", 10, "--units", 8)


def labels_in(journal):
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return [line for line in lines if line["type"] == "labels"]


def check_server(browser, folder, count):
    server = subprocess.Popen(["keelson-label", "serve", "--project", str(folder / "project")], stdout=subprocess.PIPE, text=True)
    try:
        address = next(found[0] for found in (re.search(r"http://\S+", line) for line in server.stdout) if found)
        began = time.time()
        browser.open(address)
        ready = time.time() - began
        paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        check(paint < 1000, f"first paint after {paint:.0f} ms, first list after {1000 * ready:.0f} ms, {count} images")

        began = time.time()
        browser.run("document.getElementById('filter').value = 'all'; load().then(() => list.ids.length)")
        browser.wait_for(f"list.ids.length === {count}")
        check(True, f"a list of all images after {time.time() - began:.2f} s")
        for part in (0.33, 0.77, 1):
            browser.run(f"$('gallery').scrollTop = {part} * $('gallery').scrollHeight")
            browser.wait_for("(() => { const all = [...document.querySelectorAll('.cell img')]; return all.length > 20 && "
                             "all.every((i) => i.complete && i.naturalWidth === 64); })()")
        cells = browser.run("document.querySelectorAll('.cell').length")
        check(cells < 400, f"only {cells} thumbnails at a time are in the page")

        browser.run("document.getElementById('filter').value = 'batch'; load().then(() => { $('gallery').focus(); })")
        browser.wait_for("list.ids.length === 60")
        shown = browser.run("list.ids")
        began = time.time()
        for i, image in enumerate(shown):
            browser.wait_for(f"list.ids[focus] === {image}")
            browser.key("21"[image % 2])
        browser.wait_for("state.seen === 60")
        seconds = time.time() - began
        saved = labels_in(folder / "project" / "journal.jsonl")
        check(seconds < 60 and [s["images"] for s in saved] == [[i] for i in shown] and
              all(s["label"] == 1 - s["images"][0] % 2 for s in saved), f"60 labels by keys in {seconds:.1f} s, all saved")
        browser.key("Backspace")
        browser.wait_for("state.seen === 59")
        check(browser.run("list.ids[focus]") == shown[-1], "undo takes the last label back and shows its image")
        browser.key("21"[shown[-1] % 2])
        browser.wait_for("state.seen === 60")

        browser.run("document.getElementById('filter').value = 'unlabelled'; load().then(() => { $('gallery').focus(); })")
        browser.wait_for(f"list.ids.length === {count - 60}")
        for _ in range(9):
            browser.key("ArrowRight", modifiers=8)  # Shift
        browser.key("0")
        browser.wait_for("state.seen === 70")
        check(len(labels_in(folder / "project" / "journal.jsonl")[-1]["images"]) == 10, "ten images by one key")
        browser.run("(() => { const k = document.querySelectorAll('input.key'); k[0].value = 'p'; "
                    "k[0].dispatchEvent(new Event('change')); })()")
        browser.wait_for("state.keys === 'p20'")
        browser.key("p")
        browser.wait_for("state.seen === 71")
        check(labels_in(folder / "project" / "journal.jsonl")[-1]["label"] == 0, "a key that was changed")
        check(browser.run("$('message').textContent") == "", "no message of an error")
        own = address.split("/?")[0]
        others = [url for url in browser.asked if not url.startswith((own, "about:", "data:"))]
        check(not others, f"nothing but {own} was asked {others[:3]}")
    finally:
        server.terminate()
        server.wait(20)


def check_single_page(browser, folder):
    keelson("train", "--project", folder / "project")
    keelson("suggest", "--project", folder / "project", "--batch", 20, "--page", folder / "page.html")
    browser.asked.clear()
    browser.open((folder / "page.html").as_uri())
    browser.wait_for("list.ids.length === 20")
    browser.run("$('gallery').focus()")
    first = browser.run("list.ids[0]")
    browser.key("p")
    browser.wait_for("state.seen === 1 && focus === 1")
    browser.key("2")
    browser.wait_for("state.seen === 2")
    browser.key("Backspace")
    browser.wait_for("state.seen === 1")
    (folder / "labels.csv").write_text(browser.run("inPage.csv()"))
    keelson("label", "--project", folder / "project", "--csv", folder / "labels.csv")
    last = labels_in(folder / "project" / "journal.jsonl")[-1]
    check((last["images"], last["label"]) == ([first], 0), "labels of a page without a server come back as CSV")
    check(all(url.startswith(("file:", "data:")) for url in browser.asked), "the page asks no network")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser") or "", metavar="COMMAND")
    options.add_argument("--images", type=int, default=50000, metavar="N")
    given = options.parse_args()
    missing = [name for name, there in (("Chromium", given.chromium), ("keelson-label", shutil.which("keelson-label"))) if not there]
    if missing:
        print(f"check-label-page SKIPPED: this machine has no {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory(prefix="keelson-page-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        make_project(folder, given.images)
        browser = Browser(shlex.split(given.chromium), folder / "browser")
        try:
            check_server(browser, folder, given.images)
            check_single_page(browser, folder)
            check(not browser.errors, f"no error of a script {browser.errors[:2]}")
        finally:
            browser.end()


if __name__ == "__main__":
    sys.exit(main())
