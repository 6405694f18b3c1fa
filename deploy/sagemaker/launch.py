#!/usr/bin/env python3
"""Starts a training job on SageMaker, in the image of deploy/Dockerfile (pip install sagemaker, version 2).

    launch.py --image ACCOUNT.dkr.ecr.REGION.amazonaws.com/fabring --role ROLE --hosts 4 --instance ml.p4d.24xlarge \
        --program "python /opt/fabring/examples/python/allreduce.py"
"""
import argparse

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--image", required=True, help="where the image was pushed to")
parser.add_argument("--role", required=True, help="of IAM, which the job has")
parser.add_argument("--hosts", type=int, default=2)
parser.add_argument("--instance", default="ml.c5n.18xlarge")
parser.add_argument("--program", default="", help="each rank's; without it, a checked allreduce")
arguments = parser.parse_args()

from sagemaker.estimator import Estimator  # noqa: E402, so that --help needs nothing

Estimator(
    image_uri=arguments.image,
    role=arguments.role,
    instance_count=arguments.hosts,
    instance_type=arguments.instance,
    hyperparameters={"program": arguments.program} if arguments.program else {},
    environment={"FABRING_EXPLAIN": "1"},
).fit()
