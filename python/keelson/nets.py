"""The networks that are part of Keelson."""

import json

from . import _engine, _errors
from ._engine.nets import _of_settings, cosmoflow, deepcam, deeplab_sc18, lstm_lm, minerva, mlp, tiramisu

__all__ = ["cosmoflow", "deepcam", "deeplab_sc18", "from_checkpoint", "lstm_lm", "minerva", "mlp", "tiramisu"]


def _flag(text):
    return text in ("true", "1")


def from_checkpoint(state):
    """The network of a checkpoint that was made by one of the programs, by keelson.search, or by one of these functions.

    `state`: keelson.Checkpoint(path).state. For checkpoints of recurrent networks, the network has the output "logits".
    """
    config = state.config
    topology = json.loads(state.topology)
    nodes = {node["name"]: node for node in topology["nodes"]}
    shape = nodes["x"]["shape"] if "x" in nodes else []

    def given(**kinds):
        """The entries of the checkpoint's configuration, by argument of the function; missing ones are left out."""
        found = {name: config.get(name.replace("_", "-")) for name in kinds}
        return {name: kinds[name](text) for name, text in found.items() if text not in (None, "")}

    name = state.network
    if name.startswith("cosmoflow-"):
        weights = {n: node for n, node in nodes.items() if node.get("parameters")}
        graph = cosmoflow(name.removeprefix("cosmoflow-"), size=shape[2], channels=shape[1], targets=nodes["y"]["shape"][1],
                          **given(dropout=float))
        shapes = graph.parameters
        widths = {n: node["parameters"]["weights"][0] for n, node in weights.items()
                  if node["parameters"]["weights"][0] != shapes[f"{n}/weights"][0]}
        if widths:
            graph = cosmoflow(name.removeprefix("cosmoflow-"), size=shape[2], channels=shape[1],
                              targets=nodes["y"]["shape"][1], widths=widths, **given(dropout=float))
    elif name.startswith("lm-"):
        vocabulary = nodes["embedding"]["parameters"]["weights"][0]
        graph = lstm_lm(vocabulary, logits_output=True, cell=name.removeprefix("lm-"),
                        **given(hidden=int, layers=int, unroll=int, embedding=int, dropout=float, init=float, tied=_flag))
    elif name == "tabular-mlp":
        outputs = nodes[topology["outputs"]["prediction"]]["shape"][1]
        graph = mlp(shape[1], outputs, classes=nodes["y"]["dtype"] == "s32",
                    **given(layers=int, units=int, activation=str, batch_norm=_flag, dropout=float, dropout_layers=int))
    elif name.startswith("minerva-"):
        graph = minerva(name.removeprefix("minerva-"), channels=shape[1], strips=shape[2], planes=shape[3],
                        classes=nodes[topology["outputs"]["prediction"]]["shape"][1], **given(dropout=float, width=float))
    elif name.startswith("climate-"):
        graph = _of_settings(name, config, shape[1:])
    elif "genome" in state.texts:
        outputs = nodes[topology["outputs"]["prediction"]]["shape"][1]
        graph = _engine.search.network(name, state.texts["genome"], shape[1:], outputs, nodes["y"]["dtype"] == "s32")
    else:
        raise _errors.InputError(f"the checkpoint's network is '{name}'. Expected one of cosmoflow-*, lm-*, climate-*, "
                                 "tabular-*, minerva-*, or one that a search has found: make other networks by the functions "
                                 "that made them")
    return graph
