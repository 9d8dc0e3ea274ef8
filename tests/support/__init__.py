"""What our own tests share: ops as table rows, fakes of GPUs, random graphs, damaged files."""
