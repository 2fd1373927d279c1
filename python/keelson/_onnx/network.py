"""Networks from ONNX files."""

import importlib
import json
import os
import re

import numpy

from .. import _engine, _errors
from . import ops, patterns
from .values import Refused, Scores, Value, clean_name, ordered, rows_of, sample_of, text_of

__all__ = ["OnnxNetwork", "from_onnx"]

_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097)
_ENDINGS = ("/weights", ".weight", "/weight", "/scale", "/kernel", "/gamma", "/W", ".weight_ih_l0")
_MOST_FOLDED = 1 << 28  # elements
_VIEWS = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Split", "Slice", "Gather", "Concat", "Flatten")


# Behind these, only a part of a value may be read.
_PARTS = (*_VIEWS, "LSTM", "GRU", "Dropout")


class OnnxNetwork:
    """A network from an ONNX file (keelson.from_onnx).

    graph: the keelson.Graph, to which layers and a loss can be added. weights: the values of the file by the names of the
    graph's parameters, NumPy arrays. inputs, outputs: keelson.Var by the names in the file. model[name] is one of them.
    """

    def __init__(self, graph, weights, inputs, outputs):
        self.graph, self.weights, self.inputs, self.outputs = graph, weights, inputs, outputs

    def __getitem__(self, name):
        found = {**self.inputs, **self.outputs}
        if name not in found:
            raise _errors.UnknownName(f"the network has no input or output '{name}'. Expected one of: {', '.join(found)}")
        return found[name]

    def parameters(self, context=None, *, seed=1):
        """The parameters of the graph, with the values of the file. Layers that were added begin with random values, by the
        seed. context: the device, by default this process' own."""
        parameters = _engine.Parameters(self.graph, context or _engine.Context(), seed)
        for name, values in self.weights.items():
            if name in parameters:
                parameters[name] = values
        return parameters

    def __repr__(self):
        return f"<keelson.OnnxNetwork: {self.graph!r}, inputs {list(self.inputs)}, outputs {list(self.outputs)}>"


class _Node:
    """An operator of the file, or several that a pattern has joined."""

    def __init__(self, op, name, inputs, outputs, attributes, proto=None):
        self.op, self.name, self.inputs, self.outputs = op, name, list(inputs), list(outputs)
        self.attributes, self._read, self.proto = dict(attributes), set(), proto

    def get(self, name, default=None):
        """An attribute. Attributes that no one reads are refused."""
        self._read.add(name)
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def has_input(self, i):
        return i < len(self.inputs) and self.inputs[i] != ""

    @property
    def unread(self):
        return [name for name in self.attributes if name not in self._read]

    def __str__(self):
        return f"{self.op} '{self.name or (self.outputs or ['?'])[0]}'"


class _Reader:
    """Reads one file. Constants are NumPy arrays, values of the network are Value or Scores."""

    def __init__(self, path, shapes):
        onnx = _package()
        self.path, self.onnx = os.fspath(path), onnx
        try:
            model = onnx.load(self.path)
        except FileNotFoundError:
            raise _errors.InputError(f"{self.path}: there is no such file") from None
        except Exception as e:  # protobuf's DecodeError, or of the second file with the weights
            raise _errors.InputError(f"{self.path}: is not a readable ONNX file ({str(e).splitlines()[0]})") from None
        if model.functions:
            model = importlib.import_module("onnx.inliner").inline_local_functions(model)
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.model, self.graph = model, _engine.Graph(model.graph.name or "onnx")
        self.values, self.weights, self.names, self.owner = {}, {}, set(), {}
        self.shared, self.readers, self.wanted = {}, {}, set()
        self.fixed_batch, self.states = None, {}
        self.batch, self.counting = 1, set()  # counting: names of constants in which there may be the number of samples
        for tensor in model.graph.initializer:
            self.values[tensor.name] = self._array(tensor)
        if model.graph.sparse_initializer:
            self.refuse("sparse initializers are not supported")
        self.nodes = [self._node(n) for n in model.graph.node]
        self.inputs, self.shapes = {}, dict(shapes or {})
        for given in model.graph.input:
            if given.name not in self.values:
                self._read_input(given)
        if unknown := set(self.shapes) - set(self.inputs):
            self.refuse(f"shapes= names '{min(unknown)}', but the inputs are {', '.join(self.inputs)}")
        self._fold()
        self.batch = 1 if self.fixed_batch == 1 else self._free_number()
        self._find_states()

    def _free_number(self):
        """The number of samples with which shapes are computed: a prime that divides no other number of the file."""
        numbers = {n for sample, _ in self.inputs.values() for n in sample}
        for constant in self.values.values():
            numbers.update(constant.shape)
            if constant.dtype.kind in "iu" and constant.size < 64:
                numbers.update(abs(int(i)) for i in constant.ravel())
        return next(p for p in _PRIMES if not any(n and n % p == 0 for n in numbers))

    def refuse(self, text):
        raise _errors.InputError(f"{self.path}: {text}") from None

    def _array(self, tensor):
        array = self.onnx.numpy_helper.to_array(tensor)
        return array.astype(numpy.float32) if array.dtype.name in ("float64", "float16", "bfloat16") else array

    def _node(self, proto):
        attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in proto.attribute}
        op = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
        return _Node(op, proto.name, proto.input, proto.output, attributes, proto)

    def _read_input(self, given):
        kinds = self.onnx.TensorProto
        kind = given.type.tensor_type.elem_type
        if kind not in (kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.INT32, kinds.INT64):
            self.refuse(f"the input {given.name} is {kinds.DataType.Name(kind).lower()}. Expected float or int")
        dims = [d.dim_value if d.HasField("dim_value") else None for d in given.type.tensor_type.shape.dim]
        if not dims:
            self.refuse(f"the input {given.name} has no axes. Expected the batch as its first axis")
        if given.name in self.shapes:
            dims[1:] = self._given_shape(given.name, self.shapes[given.name], dims[1:])
        if None in dims[1:]:
            self.refuse(f"the input {given.name} has {len(dims)} axes, and not only the first one, the batch, is open. Give "
                        f"the others: shapes={{'{given.name}': ({', '.join(str(d or '?') for d in dims[1:])})}}")
        if self.inputs and self.fixed_batch != dims[0]:
            self.refuse(f"the first axes of the inputs are {self.fixed_batch or 'open'} and {dims[0] or 'open'}. Expected the "
                        "batch as the first axis of every input; export with an open batch (dynamic axes)")
        self.fixed_batch = dims[0]
        self.inputs[given.name] = (tuple(dims[1:]), "int32" if kind in (kinds.INT32, kinds.INT64) else "float32")

    def _given_shape(self, name, shape, dims):
        """The shape of shapes=, if it is one that the file's extents (None: open) allow."""
        known = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if len(known) != len(dims) or any(
                isinstance(n, bool) or not isinstance(n, (int, numpy.integer)) or n < 1 or d not in (None, n)
                for n, d in zip(known, dims)):
            self.refuse(f"shapes= has {shape!r} for the input {name}. Expected positive whole numbers: "
                        f"({', '.join(str(d or '?') for d in dims)})")
        return [int(n) for n in known]

    # --- names

    def unique(self, name):
        """A name that no node has."""
        if re.fullmatch(r"[a-z_]+\d+", name):  # the engine may have given this name to a node that has no name in the file
            self.names.update(node["name"] for node in json.loads(self.graph.topology)["nodes"])
        base, i = name, 1
        while name in self.names:
            i += 1
            name = f"{base}_{i}"
        self.names.add(name)
        return name

    def label(self, node, weights=""):
        """A name for the node in the graph: that of its weights (conv1/weights, conv1.weight), or its own."""
        for ending in _ENDINGS:
            if weights.endswith(ending) and len(weights) > len(ending):
                return clean_name(weights[:-len(ending)])
        name = (node.name or node.outputs[0]).removeprefix("node_")  # PyTorch's exporter
        return clean_name(name.removesuffix("/" + node.proto.op_type)) or node.op.lower().strip("_")

    def node_name(self, node, weights=""):
        return self.unique(self.label(node, weights))

    def set(self, name, **arrays):
        for own, values in arrays.items():
            self.weights[f"{name}/{own}"] = numpy.ascontiguousarray(values, dtype=numpy.float32)

    # --- values

    def constant(self, name):
        """The array, or None if the value depends on the inputs."""
        value = self.values.get(name)
        return value if isinstance(value, numpy.ndarray) else None

    def raw(self, name):
        """A value as it is: a factor or zeros around it may be missing."""
        if name in self.states:
            raise Refused(f"the input {name} is only the first state of {self.states[name]}, which carries it on")
        if name not in self.values:
            raise Refused(f"reads {name}, a second result that is not supported" if name else "misses an input")
        return self.values[name]

    def value(self, name, whole=False):
        """A complete value of the network. whole: whether it is of whole numbers."""
        value = self.raw(name)
        if isinstance(value, numpy.ndarray):
            raise Refused(f"takes the constant {name}, where a value that depends on the inputs is expected")
        if isinstance(value, Scores):
            raise Refused("reads products of two values. These are supported only in attention: a Softmax along the last axis, "
                          "and a MatMul with the values")
        if value.source.whole and not whole:
            raise Refused(f"computes with whole numbers ({name}). They are supported only as numbers of rows (Gather)")
        if value.pads is not None:
            raise Refused("a Pad before it. Pads are supported only before Conv and AveragePool")
        if value.factor != 1:
            value = self.values[name] = Value(_engine.layers.scale(value.var, value.factor), value.atoms, value.axes)
        return value

    # --- the run

    def run(self, outputs):
        patterns.join(self)
        needed = self.needed(outputs)
        self.readers, self.made = {}, {o: n for n in needed for o in n.outputs}
        for node in needed:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
        used = {name for node in needed for name in node.inputs} | set(outputs)
        variables = {}
        for name, (sample, dtype) in self.inputs.items():
            if name in used and name not in self.states:
                self.names.add(name)
                variables[name] = self.graph.input(name, sample, dtype)
                self.values[name] = Value.of(variables[name], (self.batch, *sample))
                self.values[name].source.whole = dtype == "int32"
        for node in needed:
            self._check_states(node)
        for node in needed:
            self._convert(node)
        return variables, {name: self._output(name) for name in outputs}

    def _fold(self):
        """Computes the nodes whose inputs are constants, where no shape of a value is needed."""
        rest = []
        for node in self.nodes:
            if not self._computed(node):
                rest.append(node)
        self.nodes = rest

    def _computed(self, node):
        """Whether all inputs are constants; then computes the results."""
        if node.op == "Constant":
            return self._set_constant(node)
        if node.op != node.proto.op_type or not node.inputs or node.op.startswith("Random"):
            return False
        inputs = [self.constant(name) for name in node.inputs if name]
        if any(i is None for i in inputs) or any(a.type == a.GRAPH for a in node.proto.attribute):
            return False
        if node.op == "Identity":
            self.values[node.outputs[0]] = inputs[0]
            self.owner[node.outputs[0]] = self.root(node.inputs[0])
            return True
        if sum(i.size for i in inputs) > _MOST_FOLDED:
            return False
        helper, reference = self.onnx.helper, importlib.import_module("onnx.reference")
        named = {name: self.values[name] for name in node.inputs if name}
        kinds = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in named.items()]
        graph = helper.make_graph([node.proto], "one", kinds,
                                  [helper.make_empty_tensor_value_info(o) for o in node.outputs if o])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        try:
            results = reference.ReferenceEvaluator(model).run(None, named)
        except Exception as e:
            self.refuse(f"{node}: cannot be computed from constants ({str(e).splitlines()[0] if str(e) else type(e).__name__})")
        counting = any(name in self.counting for name in node.inputs)
        for name, result in zip((o for o in node.outputs if o), results):
            result = numpy.asarray(result)
            if result.dtype.kind == "f" and self.batch > 1 and (
                    result.size < 64 and self._counts(result) or counting and node.op not in _VIEWS):
                self.counting.add(name)
            self.values[name] = result.astype(numpy.float32) if result.dtype == numpy.float64 else result
        return True

    def _counts(self, array):
        """Whether numbers of a constant are the number of samples, or multiples of it."""
        return bool(((array != 0) & (numpy.mod(array, self.batch) == 0)).any())

    def root(self, name):
        """The first name of a constant that Identity has renamed."""
        return self.owner.get(name, name)

    def _set_constant(self, node):
        attribute = node.proto.attribute[0]
        value = self.onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            value = self._array(value)
        elif attribute.name in ("value_int", "value_ints"):
            value = numpy.asarray(value, dtype=numpy.int64)
        elif attribute.name in ("value_float", "value_floats"):
            value = numpy.asarray(value, dtype=numpy.float32)
        else:
            self.refuse(f"{node}: a constant given by {attribute.name} is not supported")
        self.values[node.outputs[0]] = value
        return True

    def _find_states(self):
        """Inputs that are only the first states of LSTM and GRU nodes, by name: such a layer carries its state on."""
        for node in self.nodes:
            names = [node.inputs[i] for i in (5, 6) if node.op in ("LSTM", "GRU") and node.has_input(i)]
            found = set().union(*map(self._seen_inputs, names))
            if found and len(names) + (node.op == "GRU") == 2 and all(map(self._seen_inputs, names)) and all(
                    self._leads_to(name, node) for name in found):
                self.states.update(dict.fromkeys(found, node))

    def _seen_inputs(self, name):
        """The inputs of which a value is only a view; nothing if it is more than that."""
        node = next((n for n in self.nodes if name in n.outputs), None)
        if node is None or node.op not in _VIEWS:
            return {name} & set(self.inputs)
        found = [self._seen_inputs(n) for n in (node.inputs if node.op == "Concat" else node.inputs[:1])]
        return set().union(*found) if all(found) else set()

    def _leads_to(self, name, node):
        """Whether views of a value are read by nothing but the first states of the node."""
        for reader in self.nodes:
            for i in (i for i, n in enumerate(reader.inputs) if n == name):
                seen = reader.op in _VIEWS and (i == 0 or reader.op == "Concat")
                if not (reader is node and i in (5, 6) or seen and all(self._leads_to(o, node) for o in reader.outputs)):
                    return False
        return True

    def _check_states(self, node):
        if node.op in ("LSTM", "GRU") and self.state_of(node) is None:
            for name in (node.inputs[i] for i in (5, 6) if node.has_input(i)):
                for given in sorted(self._seen_inputs(name)):
                    self.refuse(f"{node}: its first state {name} comes from the input {given}. Expected an input that only "
                                "this node reads, as its whole state (h; in LSTM also c), or zeros")

    def state_of(self, node):
        """The name of the input that is this node's state, or None."""
        return next((name for name, n in self.states.items() if n is node), None)

    def next_states(self):
        """Outputs that are only the next values of states. Where all outputs are, none is left out."""
        made = {o: n for n in self.nodes for o in n.outputs}
        carrying = {id(n) for n in self.states.values()}

        def is_state(name):
            node = made.get(name)
            if node is None:
                return False
            if node.op in ("LSTM", "GRU"):
                return id(node) in carrying and name in node.outputs[1:]
            return node.op in _VIEWS and all(self.constant(i) is not None or is_state(i) for i in node.inputs if i)
        return {o.name for o in self.model.graph.output if is_state(o.name)}

    def needed(self, outputs):
        """The nodes on which these values depend."""
        wanted, needed = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                needed.append(node)
                skipped = (5, 6) if self.state_of(node) else ()
                wanted.update(name for i, name in enumerate(node.inputs) if i not in skipped)
        return needed[::-1]

    def _convert(self, node):
        if all(o in self.values for o in node.outputs if o):
            return
        try:
            if self._computed(node):
                return
            for name in self.counting.intersection(node.inputs) if node.op not in ("Resize", "Upsample") else ():
                raise Refused(f"reads {name}, which is computed from the number of samples. Expected numbers that are the same "
                              "for each batch")
            handler = ops.HANDLERS.get(node.op)
            if handler is None:
                raise Refused("this operator is not supported (docs/onnx.md has a table of those that are). Cut the network "
                              "before it by outputs=, and write the rest with keelson.layers")
            results = handler(self, node)
            if node.unread:
                raise Refused(f"the attribute {node.unread[0]} is not supported")
            results = results if isinstance(results, (list, tuple)) else [results]
            for name, value in zip(node.outputs, results):
                readers = self.readers.get(name, [])
                if readers and isinstance(value, Value) and not any(n.op in _PARTS for n in readers):
                    value.source.var  # makes the layer now, in the order of the file
        except Refused as e:
            self.refuse(f"{node}: {e}")
        except _errors.InputError as e:
            if str(e).startswith(self.path):
                raise
            self.refuse(f"{node}: {e}")
        self.values.update(zip(node.outputs, results))

    def _output(self, name):
        try:
            v = ordered(self.value(name))
            if v.batch_axis == 0:
                var = sample_of(v) if v.shape[1:] or tuple(v.var.shape) != (1,) else v.var
            elif len(v.shape) == 2:
                var = rows_of(v)[0]
            else:
                raise Refused(f"its first axis is not the batch (its shape is {text_of(v)}). Expected the batch, or rows")
            self.graph.output(name, var)
            return var
        except (Refused, _errors.InputError) as e:
            self.refuse(f"the output {name}: {e}")


def _package():
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise _errors.Error("keelson.from_onnx needs the package onnx: pip install onnx, or apt install python3-onnx") from None


def from_onnx(file, *, outputs=None, shapes=None):
    """Makes a network from an ONNX file, for example of PyTorch or Keras, with its weights: a keelson.OnnxNetwork.

    The batch is the first axis of each input. outputs: names of the values that become outputs, also inner ones, so that the
    layers behind them are left out; by default the outputs of the file. shapes: shapes of samples by the names of inputs,
    for inputs whose size the file leaves open: {"x": (3, 224, 224)}. Needs the package onnx. Raises InputError, naming the
    operator and the node, for what the engine cannot do.
    """
    reader = _Reader(file, shapes)
    known = {o for n in reader.nodes for o in n.outputs} | set(reader.inputs)
    names = [outputs] if isinstance(outputs, str) else outputs
    if outputs is None:
        names = [o.name for o in reader.model.graph.output]
    for name in names:
        if name not in known:
            near = importlib.import_module("difflib").get_close_matches(name, known, 3)
            reader.refuse(f"there is no value '{name}'" + (f". Similar: {', '.join(near)}" if near else ""))
    reader.wanted = set(names)
    if outputs is None:
        dropped = reader.next_states()
        names = [n for n in names if n not in dropped] or names
    inputs, found = reader.run(names)
    shapes = reader.graph.parameters
    for name, values in reader.weights.items():
        if name in shapes and tuple(shapes[name]) != values.shape:
            reader.refuse(f"the parameter {name} has the shape {values.shape}. Expected {tuple(shapes[name])}")
    if missing := [name for name in shapes if name not in reader.weights]:
        raise _errors.Error(f"{reader.path}: no values for the parameter {missing[0]}")
    return OnnxNetwork(reader.graph, {n: reader.weights[n] for n in shapes}, inputs, found)
