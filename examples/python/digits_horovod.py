"""Trains a small network on the digits of scikit-learn, data-parallel, as a script written for Horovod does it. The loss is
that of one process that has all the data (pip install scikit-learn torch):

    python digits_horovod.py
    python -m fabring.run -np 4 digits_horovod.py
"""

import argparse

import fabring.horovod as hvd  # the only line that differs: import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--epochs", type=int, default=10)
options.add_argument("--batch", type=int, default=64, help="of all ranks together")
options.add_argument("--fp16", action="store_true", help="send gradients as 16-bit floats")
options = options.parse_args()

hvd.init()
torch.manual_seed(1)
torch.set_num_threads(1)
device = torch.device("cpu")
if torch.cuda.is_available():  # a GPU for each rank of a host, or one for several
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32, device=device).reshape(-1, 64) / 16
labels = torch.tensor(digits.target, device=device)
order = torch.randperm(len(labels))
train, test = order[:1536], order[1536:]

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     compression=hvd.Compression.fp16 if options.fp16 else hvd.Compression.none)

for epoch in range(options.epochs):
    shuffled = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))]
    total = 0.0
    for batch in shuffled.split(options.batch):
        mine = batch.tensor_split(hvd.size())[hvd.rank()]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[mine]), labels[mine], reduction="sum")
        (loss * hvd.size() / len(batch)).backward()  # gradients are averaged over ranks, whose parts may differ by one image
        optimizer.step()
        total += loss.item()
    mean = hvd.allreduce(torch.tensor(total), op=hvd.Sum, name="loss").item() / len(train)
    with torch.no_grad():
        right = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1:2d}  loss {mean:.6f}  test accuracy {100 * right:.1f}%", flush=True)
