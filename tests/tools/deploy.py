#!/usr/bin/env python3
"""The files in deploy/ do what they say: the environment that they give to ranks makes a job, here on this host; what they
name is there. Run: deploy.py ROOT FABRING"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import yaml

root, fabring = pathlib.Path(sys.argv[1]), os.path.abspath(sys.argv[2])
deploy = root / "deploy"
outside = {name: value for name, value in os.environ.items() if not re.match("FABRING_|SLURM_|SM_|RANK$|WORLD_SIZE$|MASTER_", name)}
outside["PATH"] = os.path.dirname(fabring) + ":" + outside["PATH"]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def run_together(command, environments):
    """All of it, once every process has ended with 0."""
    ranks = [subprocess.Popen(command, env=outside | one, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for one in environments]
    said = []
    try:
        for rank in ranks:
            said.append(rank.communicate(timeout=60)[0])
    finally:
        for rank in ranks:
            rank.kill()
    assert all(rank.returncode == 0 for rank in ranks), said
    return "".join(said)


def documents_of(name):
    return list(yaml.safe_load_all((deploy / "kubernetes" / name).read_text()))


def settings():
    return {row["name"] for row in json.loads(subprocess.run([fabring, "settings", "--json"], env=outside, capture_output=True, check=True).stdout)}


def runs_an_image_that_was_built_here(file, container):
    """With no tag, or `latest`, the nodes would ask a registry for it though they have it."""
    built = re.findall(r"^#   docker build .*-t (\S+)", (deploy / "kubernetes" / file).read_text(), re.M)
    assert built == [container["image"]] and re.fullmatch(r"[a-z-]+:(?!latest$)\w+", container["image"]), (file, built)
    assert container["imagePullPolicy"] == "IfNotPresent", file


def the_indexed_job_is_a_job(folder):
    service, policy, job = documents_of("indexed-job.yaml")
    spec, name = job["spec"], job["metadata"]["name"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    runs_an_image_that_was_built_here("indexed-job.yaml", container)
    given = {one["name"]: one["value"] for one in container["env"]}
    ranks = int(given["FABRING_WORLD_SIZE"])
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == ranks
    assert given["FABRING_MASTER_ADDR"] == f"{name}-0.{service['metadata']['name']}" and pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == {"job-name": name}
    mount, = container["volumeMounts"]
    volume, = pod["volumes"]
    assert given["FABRING_SECRET_FILE"].startswith(mount["mountPath"] + "/") and volume["name"] == mount["name"]
    secret = folder / "secret"
    secret.write_text("0" * 64)
    secret.chmod(volume["secret"]["defaultMode"])
    here = {"FABRING_MASTER_ADDR": "127.0.0.1", "FABRING_MASTER_PORT": free_port(), "FABRING_SECRET_FILE": str(secret)}
    said = run_together(container["command"] + ["--sizes", "4K"], [given | here | {"JOB_COMPLETION_INDEX": str(rank)} for rank in range(ranks)])
    assert f"{ranks} ranks" in said and ": 0 OK" in said, said


def the_pytorch_job_names_what_is_in_the_image(_):
    job, = documents_of("pytorchjob.yaml")
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        container, = replica["template"]["spec"]["containers"]
        assert container["name"] == "pytorch"
        runs_an_image_that_was_built_here("pytorchjob.yaml", container)
        assert (root / os.path.relpath(container["command"][1], "/opt/fabring")).exists(), container["command"]
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1


# Runs its command as so many tasks; like Slurm's it ends with the highest code of them.
SRUN = """#!/bin/sh
echo "srun $*"
case "$1" in --kill-on-bad-exit=1) exit 0;; esac
worst=0
export SLURM_STEP_NUM_TASKS=$(echo $DOCTOR | wc -w)
for TASK in $(seq 0 $((SLURM_STEP_NUM_TASKS - 1))); do
  export TASK
  "$@" || { code=$?; test $code -le $worst || worst=$code; }
done
exit $worst
"""
DOCTOR = """#!/bin/sh
test "$*" = "doctor net" || exit 99
set -- $DOCTOR
test $TASK = 0 || shift
exit $1
"""


def slurm_starts_the_program_unless_the_check_found_something(folder):
    for name, text in (("srun", SRUN), ("fabring", DOCTOR)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for codes, started in (("0 0", True), ("1 1", False), ("3 3", True), ("0 3", True), ("1 3", False), ("3 1", False), ("2 0", False), ("127 0", False),
                           ("3 137", False), ("2", True)):  # one task: doctor net would refuse
        for program in (["python", "train.py", "a b"], []):
            ended = subprocess.run([deploy / "slurm" / "train.sbatch", *program], capture_output=True, text=True, timeout=20,
                                   env=outside | {"PATH": f"{folder}:{outside['PATH']}", "DOCTOR": codes})
            wanted = "srun --kill-on-bad-exit=1 " + (" ".join(program) or "fabring perf allreduce")
            assert (wanted in ended.stdout.splitlines()) == started and (ended.returncode == 0) == started, (codes, ended)
            assert ("doctor net" in ended.stderr) != started, ended


def sagemaker_hosts_are_ranks(folder):
    hosts = ["127.0.0.1", "localhost"]
    environments = []
    for host in hosts:
        config = folder / host
        config.mkdir()
        (config / "resourceconfig.json").write_text(json.dumps({"current_host": host, "hosts": hosts, "network_interface_name": "lo"}))
        (config / "hyperparameters.json").write_text(json.dumps({"program": "fabring perf allreduce --sizes '4K'"}))
        environments.append({"SAGEMAKER_CONFIG": str(config), "FABRING_MASTER_PORT": free_port()})
    environments[1]["FABRING_MASTER_PORT"] = environments[0]["FABRING_MASTER_PORT"]
    said = run_together([deploy / "sagemaker" / "train"], environments)
    assert "2 ranks" in said and ": 0 OK" in said, said
    lost = subprocess.run([deploy / "sagemaker" / "train"], env=outside | {"SAGEMAKER_CONFIG": str(folder)}, capture_output=True, text=True)
    assert lost.returncode == 1 and "resourceconfig.json" in lost.stderr, lost
    assert subprocess.run([deploy / "sagemaker" / "launch.py", "--help"], capture_output=True).returncode == 0


def the_image_has_what_the_readme_says_a_host_needs(_):
    text = (deploy / "Dockerfile").read_text()
    packages = re.findall(r"apt-get install (.*?)&&", text.replace("\\\n", " "), re.S)[0].split()
    readme = re.search(r"A host that only runs it needs Debian's `([^`]+)`, and `([^`]+)`", (root / "README.md").read_text())
    assert set(readme[1].split()) | {readme[2]} <= set(packages), packages
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M):
        assert (root / source).exists(), source


def a_tree_that_was_built_in_makes_an_image(_):
    """Of the names of such files, all builders know this one. A CMakeCache.txt of another folder would end the build."""
    assert {".git", "build", "build-*"} <= set((root / ".dockerignore").read_text().split())
    assert not list(deploy.rglob("*.dockerignore")), "it would take the place of the one above, with some builders"


def settings_exist(_):
    known = settings()
    for file in deploy.rglob("*"):
        if file.is_file():
            for name in re.findall(r"\bFABRING_[A-Z_]+[A-Z]\b", file.read_text()):
                assert name in known or name.startswith(("FABRING_WITH_", "FABRING_BUILD_")) or name in ("FABRING_WERROR", "FABRING_UNITY"), (file, name)


for check in (the_indexed_job_is_a_job, the_pytorch_job_names_what_is_in_the_image, slurm_starts_the_program_unless_the_check_found_something,
              sagemaker_hosts_are_ranks, the_image_has_what_the_readme_says_a_host_needs, a_tree_that_was_built_in_makes_an_image,
              settings_exist):
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name))
