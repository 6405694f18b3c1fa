"""Wrong uses that would leave every rank with a model of its own: refused in words, on every rank, and nothing is harmed."""

import fabring.horovod as hvd
import torch
from torch import nn

torch.set_num_threads(1)


def refused(words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except hvd.HorovodInternalError as error:
        assert all(word in str(error) for word in words), error
        return
    raise SystemExit(f"not refused: {words}")


def optimizer_of(model, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)


model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
refused(["init() first"], optimizer_of, model)
hvd.init()
for collective in (hvd.allreduce, hvd.reducescatter, lambda x, **named: hvd.grouped_reducescatter([x], **named)):
    for factor in ({"prescale_factor": 0.5}, {"postscale_factor": 2.0}):
        refused(["go with floating-point tensors"], collective, torch.arange(4), op=hvd.Sum, **factor)
own = hvd.ProcessSet([0, 1])
refused(["ranks=[0, 1]", "add_process_set()"], optimizer_of, model, process_set=own)

optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for wrong, words in ((model, ["is of type Sequential", "give model.state_dict()"]),
                     (model[0], ["is of type Linear", "give model.state_dict()"]),
                     (7, ["is of type int", "give model.state_dict()"]),
                     (list(model), ["'parameter 0' is of type Linear"]),
                     (optimizer.state_dict(), ["'param_groups' is of type list"]),
                     ({"model": model.state_dict(), "epoch": 3}, ["'epoch' is of type int"]),
                     ({"only": model.state_dict()}, ["'only' is of type OrderedDict", "model.state_dict()"]),
                     ({"0._extra_state": {"scale": 1}}, ["no tensor"])):
    refused(["broadcast_parameters", *words], hvd.broadcast_parameters, wrong, root_rank=0)

beside = {**model.state_dict(), "0._extra_state": {"rank": hvd.rank()}}
hvd.broadcast_parameters(beside, root_rank=0)
assert beside["0._extra_state"] == {"rank": hvd.rank()}
hvd.broadcast_parameters([], root_rank=0)  # a model without parameters
hvd.broadcast_parameters(nn.ParameterList(model.parameters()), root_rank=0)
told = hvd.allgather_object([p.tolist() for p in model.parameters()])
assert told[0] == told[1]
hvd.add_process_set(hvd.ProcessSet([0]))
optimizer_of(model, process_set=hvd.add_process_set([1]))  # a set that is set up, of which this rank need not be
print(f"rank {hvd.rank()}: refused", flush=True)
