"""torchrun on two hosts (network namespaces) that meet by torchrun's own rendezvous: training, and lives after a killed worker."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "pytorch"
sys.path.insert(0, str(HERE.parent / "process"))

import harness  # noqa: E402
import hosts  # noqa: E402

LIMIT_S = 200


@pytest.fixture(scope="module")
def network():
    try:
        hosts.check_possible()
    except hosts.NotPossible as why:
        pytest.skip(str(why))
    with hosts.Hosts(2) as two:
        for host in range(2):  # torchrun tells the others its host's name
            for other in range(2):
                two.add_name(host, f"host{other}", two.address(other))
        yield two


def torchrun(network, ranks, *command):
    """One torchrun on each host, `ranks` workers each; what they said, by host."""
    meeting = f"{network.address(0)}:{harness.free_port()}"
    options = ["--nnodes", "2", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d", "--rdzv-endpoint", meeting,
               "--rdzv-id", f"test-{os.getpid()}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    started = [subprocess.Popen([*network.command_prefix(host), sys.executable, "-m", "torch.distributed.run", *options,
                                 *map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for host in range(2)]
    try:
        said = [process.communicate(timeout=LIMIT_S)[0] for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()
    for host, process in enumerate(started):
        assert process.returncode == 0, f"host {host} ended with {process.returncode}:\n" + "\n----\n".join(said)
    return said


def test_digits_on_two_hosts(network):
    carried = network.carried(1, 0)
    first, second = torchrun(network, 2, EXAMPLES / "ddp_digits.py", "--epochs", "3")
    assert "fabring, 4 ranks" in first and "largest difference to a single process" in first, first
    assert network.carried(1, 0) - carried > 1 << 20, "the gradients went over the network between the hosts"
    assert "fabring, 4 ranks" not in second


def test_a_killed_worker_on_two_hosts_gets_another_life(network):
    """Rank 1 is the worker of the second host: its torchrun starts it again, and the first host's workers follow."""
    said = torchrun(network, 1, "--max-restarts", "3", HERE / "jobs" / "restarted.py")
    text = "\n".join(said)
    assert text.count("sum of the second life: 3") == 1, text
    assert "peer_lost" in text and "rank 1 (host host1" in text, text
