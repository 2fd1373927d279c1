"""Runs go from Python to the programs and back through checkpoints."""

import json
import subprocess

import numpy
import pytest

import keelson
from keelson import data as kd


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cosmoflow(alone, program, tmp_path):
    kd.generate_universes(str(tmp_path / "data"), train=8, validation=4, size=32, particles=1)
    training, validation = (kd.UniverseDataset(str(tmp_path / "data" / split)) for split in ("train", "validation"))
    mae = keelson.metrics.MeanAbsoluteError(training.targets)
    adam = keelson.optim.Adam(beta1=0.9)

    def trainer(epochs):
        parameters = keelson.Parameters(keelson.nets.cosmoflow(size=32, dropout=0), keelson.Context(), seed=1)
        return parameters, keelson.Trainer(parameters, training, validation, batch=2, epochs=epochs, metrics=[mae],
                                           optimizer=adam, checkpoints=tmp_path / f"run{epochs}" / "checkpoints")

    parameters, begun = trainer(1)
    begun.run()
    result = keelson.evaluate(parameters, validation, batch=2, metrics=[mae])
    told = json.loads(run(program("keelson-cosmoflow"), "evaluate", "--checkpoint", tmp_path / "run1", "--data",
                          tmp_path / "data", "--json"))
    assert told["value"] == pytest.approx(result.metric, rel=1e-5)
    assert [t["name"] for t in told["targets"]] == [name for name, _, _ in training.targets]

    # The program continues Python's run with Python's options, and Python continues the program's run.
    run(program("keelson-cosmoflow"), "train", "--resume", tmp_path / "run1", "--data", tmp_path / "data", "--epochs", 2,
        "--out", tmp_path / "program")
    whole, both = trainer(2)
    both.run()
    by_program = keelson.Checkpoint(tmp_path / "program")
    assert by_program.state.step == 8 and by_program.state.optimizer.startswith("adam")
    read = keelson.Parameters(keelson.nets.from_checkpoint(by_program.state), keelson.Context())
    by_program.load(read)
    assert all(numpy.allclose(read[name], whole[name], atol=1e-6) for name in whole)
    on, rest = trainer(3)
    rest.resume(str(tmp_path / "program"))
    rest.run()
    assert rest.state.step == 12 and not numpy.array_equal(on["conv1/bias"], read["conv1/bias"])


def test_language_model(alone, program, tmp_path):
    kd.generate_text(tmp_path / "text", words=3000, validation_words=500, test_words=200, vocab_size=40)
    text = kd.TextDataset([str(tmp_path / "text" / "ptb.train.txt")], streams=4, unroll=10)
    validation = kd.TextDataset([str(tmp_path / "text" / "ptb.valid.txt")], streams=4, unroll=10, like=text, pad=True)
    net = keelson.nets.lstm_lm(text.vocabulary_size, hidden=16, layers=1, unroll=10)
    trainer = keelson.Trainer(keelson.Parameters(net, keelson.Context()), text, validation, batch=4, epochs=1, learning_rate=1.0,
                              optimizer=keelson.optim.SGD(clip_norm=5), metrics=[keelson.metrics.Perplexity()],
                              checkpoints=tmp_path / "run" / "checkpoints")
    trainer.run()
    told = run(program("keelson-lm"), "evaluate", "--checkpoint", tmp_path / "run", "--data", tmp_path / "text")
    assert "perplexity" in told
    assert run(program("keelson-lm"), "sample", "--checkpoint", tmp_path / "run", "--tokens", 20)


def test_climate(alone, program, tmp_path):
    kd.generate_snapshots(str(tmp_path / "data"), train=2, validation=2, rows=64, columns=96)
    data = kd.SnapshotDataset(str(tmp_path / "data" / "train"))
    net = keelson.nets.tiramisu(rows=64, columns=96, growth=4, first=8, blocks=[2, 2], kernel=3, dropout=0)
    parameters = keelson.Parameters(net, keelson.Context())
    keelson.Trainer(parameters, data, batch=1, epochs=1, checkpoints=tmp_path / "run" / "checkpoints").run()
    validation = kd.SnapshotDataset(str(tmp_path / "data" / "validation"), like=data)
    result = keelson.evaluate(parameters, validation, metrics=[keelson.metrics.PooledIoU()])
    told = run(program("keelson-climate"), "evaluate", "--checkpoint", tmp_path / "run", "--data", tmp_path / "data")
    assert f"{result.loss:.4f}"[:5] in told


def test_rows_of_a_table(alone, program, tmp_path):
    """Python predicts as the program does, from numbers in the units of the table."""
    r = numpy.random.default_rng(3)
    x = numpy.abs(r.standard_normal((200, 3))) * [1, 50, 3]
    x[:, 2] -= 4
    with open(tmp_path / "rows.csv", "w") as file:
        file.write("a,b,c,kind,number\n")
        for row in x:
            file.write(f"{row[0]:.6f},{row[1]:.6f},{row[2]:.6f},{'near' if row[1] < 30 else 'far'},{row[0] + row[2]:.6f}\n")
    train = [program("keelson-tabular"), "train", "--data", tmp_path / "rows.csv", "--features", "a,b,c", "--layers", 1, "--units", 16,
             "--batch", 8, "--epochs", 10, "--lr", 0.01, "--scale", "log"]
    run(*train, "--target", "kind", "--out", tmp_path / "classes")
    model = keelson.Predictor(tmp_path / "classes" / "checkpoints" / "best.h5")
    assert model.classifies and model.classes == ["far", "near"]
    near = model(x)[:, 1] > 0.5
    told = json.loads(run(program("keelson-tabular"), "evaluate", "--checkpoint", tmp_path / "classes", "--data",
                          tmp_path / "rows.csv", "--json"))
    assert told["scores"]["accuracy"]["ensemble"] == pytest.approx(float((near == (x[:, 1] < 30)).mean()), abs=1e-9)
    assert told["scores"]["accuracy"]["ensemble"] > 0.9
    run(*train, "--target", "number", "--out", tmp_path / "numbers")
    model = keelson.Predictor(tmp_path / "numbers" / "checkpoints" / "best.h5")
    told = json.loads(run(program("keelson-tabular"), "evaluate", "--checkpoint", tmp_path / "numbers", "--data",
                          tmp_path / "rows.csv", "--json"))
    assert told["targets"][0]["mae"] == pytest.approx(float(abs(model(x)[:, 0] - x[:, 0] - x[:, 2]).mean()), rel=1e-4)
    assert keelson.nets.mlp(28, 2, layers=5, units=300, activation="tanh").parameter_count == 370_502


def test_network_of_vertices(alone, program, tmp_path):
    run(program("keelson-minerva"), "generate", "--out", tmp_path / "events", "--train", 16, "--validation", 8, "--test", 0)
    said = run(program("keelson-minerva"), "train", "--data", tmp_path / "events", "--width", 0.2, "--batch", 8, "--epochs", 1,
               "--out", tmp_path / "run")
    state = keelson.Checkpoint(tmp_path / "run" / "checkpoints" / "best.h5").state
    assert f"minerva-epsilon: {keelson.nets.from_checkpoint(state).parameter_count} parameters" in said
