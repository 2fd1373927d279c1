"""Opens ONNX models by onnxruntime, which is None where Python has none."""

import contextlib
import os

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


@contextlib.contextmanager
def quiet():
    """Without standard error: Debian's onnxruntime 1.23 writes a thousand lines about its operators when it begins."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with quiet():
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
