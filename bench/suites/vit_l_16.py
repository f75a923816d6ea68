"""Records the step of PyTorch's tutorial "How to save memory by fusing the optimizer step into the
backward pass": torchvision's ViT-L/16, one picture, Adam, the sum of what comes out as loss.

    PYTHONPATH=traces/record python3 bench/suites/vit_l_16.py bench/suites/vit-l16-b1-i224.csv.gz
"""
import sys

import memreuse_record
import torch
import torchvision

with memreuse_record.pretend_cuda():
    model = torchvision.models.vit_l_16()
    # What PyTorch takes on a GPU by itself is asked for: it does not take it for fake tensors.
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def train():
        model(torch.rand(1, 3, 224, 224)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    train()
    with memreuse_record.record(sys.argv[1], model=model, optimizer=optimizer, batch=1):
        train()
