"""The stages of scripts/gpu-check.sh. Only Python's standard library; PyTorch where it is there, in processes of its own."""
