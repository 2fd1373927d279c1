"""The examples run and print the expected text."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("words, expected", [
    (["own_network.py"], r"error 0\.0"),
    (["cosmoflow.py", "--samples", "16", "--epochs", "2"], r"'sigma_8': \d"),
    (["language_model.py", "--words", "30000", "--epochs", "1"], r"perplexity \d+\.\d+, best possible \d"),
    (["search.py"], r"accuracy 0\.\d+\nthree networks: NLL 0\.\d+, accuracy 0\.\d+"),
    *((["climate.py", "--net", net, "--samples", "4", "--epochs", "1"], r"mean IoU 0\.\d")
      for net in ("tiramisu", "deepcam", "deeplab")),
])
def test_it_runs(alone, tmp_path, words, expected):
    done = subprocess.run([sys.executable, EXAMPLES / words[0], *words[1:]], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert re.search(expected, done.stdout), done.stdout


def test_the_tutorial(alone, tmp_path):
    """A notebook from a table to an ONNX file, in less than 40 lines."""
    pytest.importorskip("onnxruntime")
    cells = json.loads((EXAMPLES / "tutorial.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert len([line for line in code.splitlines() if line.strip()]) < 40
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert re.search(r"accuracy on new rows: (0\.9\d+|1\.000) ", done.stdout) and "ONNX agrees: True" in done.stdout, done.stdout


def test_all_are_run_and_cosmoflow_is_short():
    told = pathlib.Path(__file__).read_text()
    assert all(example.name in told for example in EXAMPLES.glob("*.py"))
    assert len((EXAMPLES / "cosmoflow.py").read_text().splitlines()) <= 30


def test_the_guide_shows_what_runs():
    top = EXAMPLES.parents[1]
    guide = "".join((top / page).read_text() for page in ("docs/python.md", "docs/batch-size.md", "README.md"))
    blocks = re.findall(r"^```python run by python/tests/test_examples.py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    texts = [path.read_text() for folder in (EXAMPLES, EXAMPLES.parent / "tests") for path in folder.glob("*.py")]
    texts += [re.sub("^    ", "", text, flags=re.MULTILINE) for text in texts]
    assert len(blocks) >= 5
    for block in blocks:
        assert any(block in text for text in texts), block
