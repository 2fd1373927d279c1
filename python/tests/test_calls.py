"""Errors of calls and arrays that do not fit."""

import re

import pytest

import keelson
from conftest import batch_of, cubes, small_network


def graph_and_input():
    graph = keelson.Graph("calls")
    return graph, graph.input("x", (4,))


@pytest.mark.parametrize("call, words", [
    (lambda g, x: keelson.Context(devices=1),
     "Context(): no argument is called 'devices'. Did you mean 'device'? Expected one of device, backends, threads, comm"),
    (lambda g, x: keelson.layers.dense(x), "dense(): the argument features: int is missing"),
    (lambda g, x: keelson.layers.dense(x, "three"), "dense(): the argument features is a str. Expected int"),
    (lambda g, x: keelson.layers.dense(x, 3, nme="a"), "dense(): no argument is called 'nme'. Did you mean 'name'?"),
    (lambda g, x: keelson.layers.dense(x, 3, x=x), "dense(): the argument 'x' was given twice"),
    (lambda g, x: keelson.layers.dense(g, 3), "dense(): the argument x is a keelson.Graph. Expected keelson.Var"),
    (lambda g, x: keelson.layers.dense(x, 3, True), "dense(): 3 arguments without a name were given. Expected at most 2; "
                                                    "the others need their names: bias="),
    (lambda g, x: keelson.layers.dense(x, 1 << 70), "dense(): cannot take (keelson.Var, int). Expected (x: keelson.Var, features: int"),
    (lambda g, x: g.input("z"), "Graph.input(): the argument sample: Sequence[int] is missing"),
    (lambda g, x: g.input("z", 3), "Graph.input(): the argument sample is an int. Expected Sequence[int]"),
    (lambda g, x: keelson.Trainer(lr=1), "Trainer(): no argument is called 'lr'. Did you mean 'learning_rate'?"),
    (lambda g, x: keelson.Trainer(keelson.Parameters(g, keelson.Context()), {}, learning_rate="fast"),
     "Trainer(): the argument learning_rate is a str. Expected float | keelson.optim.Schedule"),
    (lambda g, x: keelson.Trainer(keelson.Parameters(g, keelson.Context()), {}, optimizer="adam"),
     "Trainer(): the argument optimizer is a str. Expected keelson.optim.Optimizer | None"),
    (lambda g, x: keelson.optim.Adam(lr=1), "Adam has no setting 'lr': give the learning rate to the Trainer, learning_rate="),
    (lambda g, x: keelson.optim.ParameterGroup(), "optim.ParameterGroup(): the argument patterns: Sequence[str] is missing"),
    (lambda g, x: keelson.metrics.Accuracy(classes=3), "metrics.Accuracy(): the argument classes is an int. Expected Sequence[str]"),
])
def test_calls_that_do_not_fit_say_so_in_a_line(call, words):
    with pytest.raises(TypeError) as raised:
        call(*graph_and_input())
    text = str(raised.value)
    assert text.startswith(words) and "\n" not in text and "_engine" not in text and "object at 0x" not in text


def every_function():
    """The functions and methods of the engine, with their names."""
    from keelson import _engine

    todo, seen = [_engine], set()
    while todo:
        thing = todo.pop()
        for name in dir(thing):
            part = getattr(thing, name, None)
            if type(part).__name__ in ("nb_func", "nb_method", "nb_type_0") or isinstance(part, type(_engine)):
                if id(part) not in seen and "keelson" in str(getattr(part, "__module__", None) or getattr(part, "__name__", "")):
                    seen.add(id(part))
                    if type(part).__name__ in ("nb_func", "nb_method"):
                        yield f"{getattr(thing, '__name__', '')}.{name}", part
                    else:
                        todo.append(part)


def test_no_function_answers_with_a_list_of_signatures():
    """Whatever its signature is, a call with a wrong argument is answered in a line that names the argument."""
    tried = 0
    for name, function in every_function():
        if re.search(r"\.__\w+__$", name) or "*" in str(function.__nb_signature__):
            continue
        with pytest.raises(Exception) as raised:
            function(no_such_argument=1)
        text = str(raised.value)
        assert "\n" not in text and len(text) < 1500, (name, text)
        assert "no_such_argument" in text or "self" in text, (name, text)
        tried += 1
    assert tried > 60


def test_dtypes_have_the_names_of_numpy(context):
    with pytest.raises(keelson.InputError) as raised:
        keelson.Trainer(keelson.Parameters(small_network(), context), {"x": cubes(64)["y"], "y": cubes(64)["y"]}, epochs=1,
                        batch=batch_of(16))
    assert "float32" in str(raised.value) and "f32," not in str(raised.value).replace("float32,", "")
