"""Records with real tensors on a CUDA device, for the workspaces that fake tensors do not have.

    python3 on_device.py OPTION...      # as record.py, with `next` between recordings

The fake device of tests/oracle/torch will do.
"""
import os
import sys

sys.argv.insert(1, "--on-device")

import torch  # noqa: E402

import record  # noqa: E402

torch.backends.cuda.enable_cudnn_sdp(False)
for i, word in enumerate(sys.argv):
    if word == "next" and i + 1 < len(sys.argv):
        sys.argv.insert(i + 1, "--on-device")
record.main()
os._exit(0)     # the fake device has no threads to be joined
