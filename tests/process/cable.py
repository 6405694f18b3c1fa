"""A bad cable between a host and the switch of hosts.py: it loses frames or holds them up. For kernels without netem.

Two packet sockets and a process that carries frames from one to the other; a frame is what the kernel handed over, up to 64 KiB of
one connection. It ends when its standard input does."""

import argparse
import heapq
import random
import select
import socket
import subprocess
import sys
import time

import hosts

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ALL_PROTOCOLS = 3


class Cable:
    """Takes the place of the cable of `host`; a context manager."""

    def __init__(self, network, host, loss=0.0, delay_ms=0.0):
        self.network, self.port = network, f"port{host}"
        self.options = ["--loss", str(loss), "--delay-ms", str(delay_ms)]

    def __enter__(self):
        switch, near = self.network.switch, f"{self.port}near"
        hosts.ip("-n", switch, "link", "add", near, "type", "veth", "peer", "name", f"{self.port}far")
        hosts.ip("-n", switch, "link", "set", near, "up")
        hosts.ip("-n", switch, "link", "set", self.port, "nomaster")
        hosts.ip("-n", switch, "link", "set", f"{self.port}far", "master", "br0", "up")
        self.process = subprocess.Popen(["ip", "netns", "exec", switch, sys.executable, "-B", __file__, self.port, near, *self.options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"carrying\n":
            raise hosts.NotPossible("packet sockets do not work here")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.stdout.close()


def end_of(device):
    """Frames that come in at this device; with the header that says how the kernel would cut and sum them."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: what is lost is lost on purpose
    opened.bind((device, ALL_PROTOCOLS))
    opened.setblocking(False)
    return opened


def carry(devices, loss, delay_s):
    ends = [end_of(device) for device in devices]
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    under_way = []  # (when due, number, to, frame)
    numbers = iter(range(1 << 62))
    chance = random.Random(1)
    print("carrying", flush=True)
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], wait)
        if sys.stdin in ready:
            return
        for end in ready:
            for _ in range(64):
                try:
                    frame = end.recv(1 << 17)
                except BlockingIOError:
                    break
                if chance.random() >= loss:
                    heapq.heappush(under_way, (time.monotonic() + delay_s, next(numbers), other[end], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(under_way)
            try:
                to.send(frame)
            except OSError:
                pass  # the device's queue is full, or it is gone: a switch drops too


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("devices", nargs=2)
    parser.add_argument("--loss", type=float)
    parser.add_argument("--delay-ms", type=float)
    options = parser.parse_args()
    carry(options.devices, options.loss, options.delay_ms / 1000)
