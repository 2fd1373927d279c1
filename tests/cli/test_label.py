"""keelson-label: a person labels what the networks ask for."""

import csv
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
import unittest

from programs import Case, Program, h5py, needs_h5py, numpy

LABEL = Program("keelson-label")


class Labels(Case):
    """With diffraction images of 32 x 32 pixels, whose classes are known."""

    program = LABEL

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        done = LABEL.run("generate", "--out", cls.shared, "--size", 32, "--pool", 240, "--test", 4, "--least-ice", 0.3)
        assert done.returncode == 0, done.stderr
        cls.pool = cls.shared / "pool"

    def setUp(self):
        super().setUp()
        self.project = self.folder / "project"

    def start(self, *arguments):
        return self.succeed("start", "--project", self.project, "--images", self.pool, "--classes", "water,ice", "--members", 3,
                            "--epochs", 20, "--units", 16, "--batch-size", 16, "--first", 20, *arguments)

    def journal(self, kind):
        lines = map(json.loads, (self.project / "journal.jsonl").read_text().splitlines())
        return [line for line in lines if line["type"] == kind]

    def truth(self):
        with h5py.File(next(self.pool.glob("*.h5"))) as f:
            return f["y"][:]

    def answers(self, wrong=()):
        """A file with the labels of the last batch."""
        batch, truth = self.journal("batch")[-1], self.truth()
        rows = [(i, ("water", "ice")[truth[i] ^ (i in wrong)]) for i in batch["images"] + batch["audit"]]
        return self.write("answers.csv", "id,label\n" + "".join(f"{i},{label}\n" for i, label in rows)), [i for i, _ in rows]

    def rounds(self, count):
        self.start()
        for _ in range(count):
            self.succeed("label", "--project", self.project, "--csv", self.answers()[0], "--annotator", "anna")
            self.succeed("train", "--project", self.project)
            self.succeed("suggest", "--project", self.project, "--batch", 20)


@needs_h5py
class Loop(Labels):
    def test_generated_images(self):
        """The same on any number of ranks, with classes and masks."""
        self.succeed("generate", "--out", self.out, "--size", 32, "--pool", 240, "--test", 4, "--least-ice", 0.3, ranks=2)
        file = next(self.pool.glob("*.h5"))
        self.assertEqual(file.read_bytes(), (self.out / "pool" / file.name).read_bytes())
        with h5py.File(file) as f:
            self.assertEqual(f["x"].shape, (240, 32, 32))
            self.assertEqual(set(f["y"][:]), {0, 1})
            self.assertTrue(numpy.isnan(f["x"][0, 16, 16]))
            self.assertTrue(((f["ice_part"][:] > 0) == (f["y"][:] == 1)).all())
        self.succeed("generate", "--out", self.out, "--size", 16, "--pool", 60, "--test", 0, "--empty", 0.3, "--two-droplets", 0.3,
                     "--seed", 2)
        with h5py.File(next((self.out / "pool").glob("*.h5"))) as f:
            self.assertEqual(set(f["droplets"][:]), {0, 1, 2})
            self.assertTrue(((f["droplets"][:] == 0) == (f["y"][:] == 2)).all())
            self.assertEqual(list(f["y"].attrs["classes"]), ["water", "ice", "empty"])
        self.refused("generate", "--out", self.out, "--empty", 0.7, "--two-droplets", 0.7, says="more than all images")

    def test_learning_rates(self):
        """A range test on the labels; a rate that is chosen later counts as if it had been chosen at the start."""
        digests = []
        for late in (False, True):
            shutil.rmtree(self.project, ignore_errors=True)
            self.start(*([] if late else ["--lr", 0.01]))
            self.refused("lr-range", "--project", self.project, says="0 images have labels.*at least two classes")
            self.succeed("label", "--project", self.project, "--csv", self.answers()[0], "--annotator", "anna")
            text = self.succeed("lr-range", "--project", self.project, "--steps", 40, "--out", self.out)
            self.assertRegex(text, "training data: 20 labelled images")
            self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["lr-range.csv", "lr-range.html"])
            self.succeed("train", "--project", self.project, *(["--lr", 0.01] if late else []))
            self.succeed("train", "--project", self.project)
            self.assertEqual(len(self.journal("learning_rate")), int(late))
            digests.append([round["predictions"] for round in self.journal("round")])
        self.assertEqual(*digests)

    def test_loop(self):
        """Labels, trains, asks again, reports, and finds a wrong label; labels come back from CSV."""
        self.assertIn("20 images to label first", self.start())
        file, asked = self.answers()
        self.assertEqual(len(set(asked)), 20)
        self.assertIn("20 labels taken", self.succeed("label", "--project", self.project, "--csv", file, "--annotator", "anna"))
        self.assertIn("20 known already", self.succeed("label", "--project", self.project, "--csv", file, "--annotator", "anna"))
        self.assertIn("round 1: 3 networks learned from 20 labels", self.succeed("train", "--project", self.project))
        page = self.folder / "page.html"
        text = self.succeed("suggest", "--project", self.project, "--batch", 30, "--page", page)
        for words in ("20 of 240 images have labels; no audit labels yet", "go on", "27 by margin", "3 at random"):
            self.assertIn(words, text)
        html = page.read_text()
        self.assertEqual(html.count("data:image/png;base64,"), 30)
        self.assertNotRegex(html, r"""(src|href)=["']?https?:""")
        batch = self.journal("batch")[-1]
        self.assertEqual(len(batch["audit"]), len(batch["predicted"]))
        self.assertFalse(set(asked) & set(batch["images"] + batch["audit"]))
        wrong = {batch["images"][-1]}  # of those that are asked for, the networks are least unsure about it
        self.succeed("label", "--project", self.project, "--csv", self.answers(wrong)[0], "--annotator", "anna")
        self.assertRegex(self.succeed("train", "--project", self.project), "learned from 50 labels; .* have changed")
        self.assertRegex(self.succeed("suggest", "--project", self.project), r"of 3 audit labels \d were predicted")
        out = self.folder / "all.csv"
        told = json.loads(self.succeed("report", "--project", self.project, "--csv", out, "--json", "--confidence", 0.5))
        self.assertEqual((told["labelled"], told["audit"]["labels"]), (50, 3))
        self.assertTrue(wrong <= set(told["wrong"]), told)
        for words in ("Accuracy on what is left", "Confusion", "probably wrong"):
            self.assertIn(words, (self.project / "report.html").read_text())
        with out.open() as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(list(rows[0]), "id,file,index,label,source,annotator,p_0,p_1,std,bald,margin,round,time".split(","))
        people = [r for r in rows if r["source"] == "person"]
        self.assertEqual((len(rows), len(people), {r["annotator"] for r in people}), (240, 50, {"anna"}))
        right = [r["label"] == ("water", "ice")[self.truth()[int(r["id"])]] for r in rows if r["source"] == "model" and r["label"]]
        self.assertGreater(sum(right) / len(right), 0.85)
        # How sure the networks must be follows from the labels: 50 cannot show 99 %.
        csv_file = self.folder / "sure.csv"
        report = ("report", "--project", self.project, "--csv", csv_file, "--target")
        self.assertIn("no labels of the networks", self.succeed(*report, 0.99))
        self.assertNotRegex(csv_file.read_text(), "(?m),(water|ice),model,")
        self.assertRegex(self.succeed(*report, 0.6), "labels of probability 0.*at least 60 % .* are right .*, as 23 labels of")
        self.assertRegex(csv_file.read_text(), "(?m),(water|ice),model,")
        # Into another project: labels of people alone.
        first, self.project = self.project, self.folder / "other"
        self.start()
        self.assertIn("50 labels taken", self.succeed("label", "--project", self.project, "--csv", out))
        self.assertEqual({line["annotator"] for line in self.journal("labels")}, {"anna"})
        # A second person, who is of another opinion once.
        self.succeed("label", "--project", first, "--csv", self.write("b.csv", f"id,label\n{asked[0]},unsure\n{asked[1]},water\n"
                                                                             f"{asked[2]},ice\n"), "--annotator", "ben")
        told = json.loads(self.succeed("report", "--project", first, "--json", "--folds", 0))
        self.assertEqual((told["agreement"][0]["people"], told["agreement"][0]["both"]), (["anna", "ben"], 2))

    def test_other_images(self):
        """Any images: of colours, in .npy files, whose classes the networks see in pixels."""
        x = numpy.random.default_rng(1).random((80, 12, 10, 3)).astype("f4")
        x[::2, :6] += 1
        numpy.save(self.folder / "pictures.npy", x)
        self.succeed("start", "--project", self.project, "--images", self.folder / "pictures.npy", "--classes", "top,bottom",
                     "--features", "pixels", "--pixels", 8, "--no-log", "--first", 16, "--members", 2, "--epochs", 20, "--units", 8,
                     "--batch-size", 8)
        asked = self.journal("batch")[-1]["images"]
        answers = self.write("a.csv", "id,label\n" + "".join(f"{i},{('top', 'bottom')[i % 2]}\n" for i in asked))
        self.succeed("label", "--project", self.project, "--csv", answers)
        self.succeed("train", "--project", self.project)
        self.succeed("report", "--project", self.project, "--csv", self.out, "--confidence", 0, "--folds", 0)
        with self.out.open() as f:
            rows = list(csv.DictReader(f))
        self.assertGreater(sum(r["label"] == ("top", "bottom")[int(r["id"]) % 2] for r in rows), 75)

    def test_simulation(self):
        text = self.succeed("simulate", "--images", self.pool, "--members", 2, "--epochs", 15, "--units", 16, "--batch-size", 16,
                            "--first", 20, "--batch", 20, "--most", 60, "--seeds", 2, "--target", 0.8)
        self.assertRegex(text, r"(?m)^    60 +0\.\d{4} +0\.\d{4}$")
        self.ends(1, "simulate", "--images", self.pool, "--members", 1, "--epochs", 1, "--units", 4, "--first", 20, "--most", 20,
                  "--seeds", 1, "--target", 0.999, "--by", "random", "--require-labels", 20, says="more labels were needed")

    def test_refusals(self):
        start = ("start", "--images", self.pool, "--project", self.project)
        self.refused(*start, "--classes", "water", says="at least two different names")
        self.refused(*start, "--classes", "water,ice", "--keys", "11x", says="3 different ASCII characters")
        self.refused(*start, "--classes", "water,ice", "--centre", "3", says="two numbers")
        self.refused("start", "--project", self.project, "--images", self.folder / "none", "--classes", "a,b", says="none")
        self.refused("train", "--project", self.folder, says="keelson-label start")
        self.start()
        self.refused(*start, "--classes", "water,ice", says="holds a project")
        self.refused("train", "--project", self.project, says="at least two classes")
        label = ("label", "--project", self.project, "--csv")
        self.refused(*label, self.write("a.csv", "id,label\n7,snow\n"), says="line 2: 'snow' is no class")
        self.refused(*label, self.write("b.csv", "id,label\n1,ice\n240,ice\n"), says="line 3: the id '240'")
        self.refused(*label, self.write("c.csv", "name,label\n1,ice\n"), says="no column label, or neither id nor file")
        self.refused(*label, self.write("d.csv", "file,index,label\nother.h5,1,ice\n"), says="no image 1 in other.h5")
        self.assertEqual(self.journal("labels"), [])
        settings = json.loads((self.project / "project.json").read_text())
        settings["images"]["path"] = str(self.shared / "test")
        (self.project / "project.json").write_text(json.dumps(settings))
        self.refused(*label, self.write("e.csv", "id,label\n1,ice\n"), says="not those of the project's start")


@needs_h5py
class Page(Labels):
    """The server, asked as browsers and others would."""

    def setUp(self):
        super().setUp()
        self.rounds(1)
        self.serve()

    def serve(self):
        self.server = LABEL.start("serve", "--project", self.project)
        self.addCleanup(self.end_server, self.server)
        for line in self.server.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\w+)", line)
            if found:
                self.port, self.token = int(found[1]), found[2]
                return
        error = self.server.stderr.read()
        if "cpp-httplib was not found" in error:
            self.skipTest("a build without cpp-httplib")
        self.fail(error)

    @staticmethod
    def end_server(server):
        if server.poll() is None:
            server.kill()
        server.wait()
        server.stdout.close()
        server.stderr.close()

    def ask(self, method, path, body=None, **headers):
        """(status, body) of a request; a header None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            all_headers = {"Host": f"127.0.0.1:{self.port}", "X-Keelson-Token": self.token}
            if body is not None:
                all_headers["Content-Type"] = "application/json"
                body = json.dumps(body) if not isinstance(body, str) else body
                all_headers["Content-Length"] = str(len(body))
            all_headers.update({k.replace("_", "-"): v for k, v in headers.items()})
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in all_headers.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body.encode() if body else None)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def told(self, method, path, body=None):
        status, text = self.ask(method, path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def label(self, images, label, who="me"):
        return self.told("POST", "/api/label", {"images": images, "label": label, "annotator": who})

    def test_labels(self):
        """Labels, bulk labels, undo, lists, keys and pictures."""
        status, page = self.ask("GET", f"/?token={self.token}", X_Keelson_Token=None)
        self.assertEqual(status, 200)
        for words in (b"networks disagree with label", b"give_label", b"water"):
            self.assertIn(words, page)
        state = self.told("GET", "/api/state?annotator=me")
        self.assertEqual((state["count"], state["seen"], state["keys"], state["can_undo"]), (240, 20, "120", False))
        batch = self.told("GET", "/api/list?annotator=me&filter=batch")
        self.assertEqual(len(batch["ids"]), 20)
        first, second = batch["ids"][:2]
        self.assertEqual(self.label([first], 1), {"saved": 1})
        self.label(batch["ids"], 0)
        self.assertEqual(self.told("GET", "/api/list?annotator=me&filter=batch")["mine"], [0] * 20)
        self.assertEqual(self.told("POST", "/api/undo", {"annotator": "me"})["images"], batch["ids"])
        self.assertEqual(self.told("GET", "/api/list?annotator=me&filter=mine")["ids"], [first])
        self.label([first], 0, who="you")
        self.assertEqual(self.told("GET", "/api/list?annotator=me&filter=disputed")["ids"], [first])
        self.label([second], -1)
        unlabelled = self.told("GET", "/api/list?annotator=me&filter=unlabelled")["ids"]
        self.assertEqual(len(unlabelled), 218)
        ice = self.told("GET", "/api/list?annotator=me&filter=class&class=1")
        self.assertTrue(ice["ids"] and all(b == 1 or known == 1 for b, known in zip(ice["best"], ice["label"])))
        known = self.told("GET", "/api/list?annotator=me&filter=round&round=1")
        self.assertEqual(len(known["ids"]), 20)
        wrong = 1 - known["best"][0]
        for who in ("a", "b"):
            self.label([known["ids"][0]], wrong, who)
        self.assertIn(known["ids"][0], self.told("GET", "/api/list?annotator=me&filter=disagree")["ids"])
        details = self.told("GET", f"/api/image/{first}")
        self.assertEqual({m["annotator"]: m["label"] for m in details["marks"]}, {"me": 1, "you": 0})
        self.assertEqual((len(details["profile"]), sum(details["votes"])), (32, 3))
        status, picture = self.ask("GET", f"/image/{first}.png?edge=32&token={self.token}", X_Keelson_Token=None)
        self.assertEqual((status, picture[:8]), (200, b"\x89PNG\r\n\x1a\n"))
        self.told("POST", "/api/keys", {"keys": "wix"})
        self.assertEqual(self.told("GET", "/api/state?annotator=me")["keys"], "wix")
        # What other programs do meanwhile is seen.
        self.succeed("train", "--project", self.project)
        self.succeed("suggest", "--project", self.project, "--batch", 7)
        self.assertEqual(len(self.told("GET", "/api/list?annotator=me&filter=batch")["ids"]), 7)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(20), 0)

    def test_refusals(self):
        """Other hosts, other pages, wrong tokens, paths outside, and nonsense; nothing is written."""
        before = (self.project / "journal.jsonl").read_bytes()
        label = ("POST", "/api/label", {"images": [1], "label": 0, "annotator": "me"})
        for status, request, headers in (
                (401, ("GET", "/"), {"X_Keelson_Token": None}),
                (401, ("GET", "/?token=" + "0" * 32), {"X_Keelson_Token": None}),
                (401, ("GET", "/image/1.png"), {"X_Keelson_Token": None}),
                (401, label, {"X_Keelson_Token": self.token[:-1]}),
                (401, ("POST", f"/api/label?token={self.token}", label[2]), {"X_Keelson_Token": None}),
                (403, ("GET", "/api/state"), {"Host": "example.org"}),
                (403, ("GET", "/api/state"), {"Host": f"example.org:{self.port}"}),
                (403, ("GET", "/api/state"), {"Host": f"127.0.0.1:{self.port + 1}"}),
                (403, label, {"Host": f"keelson.example:{self.port}"}),
                (403, label, {"Origin": "http://example.org"}),
                (403, label, {"Origin": f"http://127.0.0.1:{self.port + 1}"}),
                (403, label, {"Origin": "null"}),
                (403, label, {"Sec_Fetch_Site": "cross-site"}),
                (415, label, {"Content_Type": "text/plain"}),
                (404, ("GET", "/project.json"), {}),
                (404, ("GET", "/../project.json"), {}),
                (404, ("GET", "/image/../../project.json"), {}),
                (404, ("GET", "/%2e%2e/%2e%2e/etc/passwd"), {}),
                (404, ("GET", "//etc/passwd"), {}),
                (400, ("GET", "/image/240.png"), {}),
                (400, ("GET", "/image/1.png?edge=100000"), {}),
                (400, ("GET", "/api/image/99999999999999999"), {}),
                (400, ("GET", "/api/list?annotator=me&filter=nonsense"), {}),
                (400, ("POST", "/api/label", "{"), {}),
                (400, ("POST", "/api/label", {"images": [], "label": 0, "annotator": "me"}), {}),
                (400, ("POST", "/api/label", {"images": [240], "label": 0, "annotator": "me"}), {}),
                (400, ("POST", "/api/label", {"images": [1], "label": 2, "annotator": "me"}), {}),
                (400, ("POST", "/api/label", {"images": [1], "label": 0.5, "annotator": "me"}), {}),
                (400, ("POST", "/api/label", {"images": [1], "label": 0, "annotator": ""}), {}),
                (400, ("POST", "/api/label", {"images": [1], "label": 0, "annotator": "a\nb"}), {}),
                (400, ("POST", "/api/keys", {"keys": "11x"}), {})):
            with self.subTest(request=request, headers=headers):
                found, text = self.ask(*request, **headers)
                self.assertEqual(found, status, text)
                self.assertNotIn(b"root:", text)
        self.assertEqual((self.project / "journal.jsonl").read_bytes(), before)
        self.assertEqual(self.ask(*label, Origin=f"http://localhost:{self.port}", Host=f"localhost:{self.port}")[0], 200)
        with self.assertRaises(OSError):  # on the loopback address alone
            address = socket.gethostbyname(socket.gethostname())
            if address.startswith("127."):
                address = "127.0.0.2"
            socket.create_connection((address, self.port), timeout=5).close()

    def test_killed(self):
        """kill -9 loses no label that was acknowledged."""
        saved, errors = [], []

        def labels(who):
            try:
                for i in range(240):
                    self.label([i], i % 2, who)
                    saved.append((who, i))
            except (OSError, http.client.HTTPException) as error:
                errors.append(error)

        people = [threading.Thread(target=labels, args=(f"person {k}",)) for k in range(3)]
        for person in people:
            person.start()
        while len(saved) < 60 and any(p.is_alive() for p in people):
            time.sleep(0.01)
        self.server.send_signal(signal.SIGKILL)
        for person in people:
            person.join()
        self.assertGreaterEqual(len(saved), 60)
        self.serve()
        for who in {who for who, _ in saved}:
            mine = self.told("GET", f"/api/list?filter=all&annotator={who.replace(' ', '%20')}")
            marks = dict(zip(mine["ids"], mine["mine"]))
            for i in (i for w, i in saved if w == who):
                self.assertEqual(marks[i], i % 2)


if __name__ == "__main__":
    unittest.main()
