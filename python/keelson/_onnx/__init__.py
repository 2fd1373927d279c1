"""keelson.from_onnx: network.py reads a file, ops.py says what each operator becomes."""

from .network import OnnxNetwork, from_onnx

__all__ = ["OnnxNetwork", "from_onnx"]
