"""The stages of scripts/gpu-check.sh. They use only Python's standard library, and PyTorch, if installed, in separate
processes."""
