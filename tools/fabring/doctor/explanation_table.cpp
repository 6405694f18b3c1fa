// The table of `doctor explain`.

#include "tools/fabring/doctor/explanations.hpp"

namespace fabring::tools {
namespace {

constexpr std::string_view security_group =
    "the security group lacks a rule that allows ALL traffic to and from ITSELF, inbound and outbound: an outbound "
    "rule to "
    "0.0.0.0/0 does not cover EFA's addresses, which are not IP\n"
    "the peer ended or crashed before it could answer\n"
    "the instances are in different subnets or availability zones: EFA is not routed";
constexpr std::string_view security_group_remedy =
    "add to the security group: type 'All traffic', source and destination the group itself, both inbound and "
    "outbound\n"
    "look at the peer's own output for an earlier error\n"
    "fabring doctor net on all hosts shows which pairs reach each other over TCP";
constexpr std::string_view peer_gone = "the peer crashed, was killed, or exited early\nthe host or its card failed";
constexpr std::string_view look_at_peer =
    "look at the output of the rank and host that the error names: its error is the cause\nfabring doctor hang on a "
    "job that still runs";

constexpr Explanation all_explanations[] = {
    // Ours.
    {"Fabring", "invalid_argument InvalidArgumentError",
     "^invalid_argument:|fabring.errors.invalidargumenterror:", "The call or a setting is wrong.",
     "a null, misaligned or overlapping buffer\na FABRING_* variable with a bad value or a mistyped name",
     "do what the text says; fabring settings lists every variable with its value"},
    {"Fabring", "mismatch MismatchError", "^mismatch:|fabring.errors.mismatcherror:",
     "Ranks called different things, or run different versions, settings, jobs or secrets.",
     "ranks call collectives in different orders, or with other counts or types\nhosts have different versions of "
     "Fabring or different FABRING_* variables",
     "compare the two sides in the text\nfabring doctor net compares versions and settings of all hosts"},
    {"Fabring", "unsupported UnsupportedError", "^unsupported:|fabring.errors.unsupportederror:",
     "Not possible in this build, or with this type, transport or algorithm.",
     "the build has no libfabric\nthe operation has no meaning for the type",
     "choose another type, transport or algorithm; the text names what there is"},
    {"Fabring", "unavailable UnavailableError",
     "^unavailable:|fabring.errors.unavailableerror:", "A port, name, provider or interface is missing or in use.",
     "the master port is held by another program\nFABRING_INTERFACE or FABRING_PROVIDER names what is not here",
     "the text names it\nfabring doctor host on that host"},
    {"Fabring", "timeout TimeoutError", "^timeout:|fabring.errors.timeouterror:|fabring+ has waited ",
     "A deadline passed: of the rendezvous, or of one operation.",
     "a rank never started, or cannot reach the master address (firewall, wrong interface)\na rank is alive but never "
     "called the operation",
     "the text names the ranks that were waited for: look at them\nfabring doctor net for the rendezvous, fabring "
     "doctor hang for an operation"},
    {"Fabring", "peer_lost PeerLostError",
     "peer_lost:|peerlosterror:|closed without a goodbye|fabring+ has been silent for |fabring run:+ was killed by "
     "signal ",
     "A rank died, left, or cannot be reached.",
     "its process crashed, was killed by the kernel for memory (dmesg), or exited early\nits host or the link to it "
     "failed",
     look_at_peer, true},
    {"Fabring", "aborted AbortedError",
     "^aborted:|fabring.errors.abortederror:", "abort() was called here or elsewhere, or the engine was destroyed.",
     "the program gave up on another rank", "the text says who and why", true},
    {"Fabring", "out_of_memory OutOfMemoryError",
     "^out_of_memory:|fabring.errors.outofmemoryerror:", "The scratch budget or the machine is exhausted.",
     "FABRING_SCRATCH_BYTES is too small for the segments\nthe host has no memory left",
     "raise FABRING_SCRATCH_BYTES or lower FABRING_SEGMENT_BYTES\nfabring doctor host shows free memory and limits"},
    {"Fabring", "transport_error TransportError",
     "^transport_error:|fabring.errors.transporterror:", "The fabric failed, or a peer broke the protocol.",
     "see the provider's words in the text", "look up those words: fabring doctor explain '...'"},
    {"Fabring", "internal InternalError", "^internal:|fabring.errors.internalerror:", "A bug of Fabring.",
     "a broken invariant", "please report it with the whole text"},
    {"Fabring", "device_error DeviceError",
     "^device_error:|fabring.errors.deviceerror:", "A GPU failed, or a buffer is not the memory of a GPU it should be.",
     "an earlier kernel of the program on that GPU failed\nthe buffer was freed, or belongs to another process",
     "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer shows the kernel\nnvidia-smi for Xid errors"},
    {"Fabring", "",
     "no answer+(fabring_silence_timeout)|cannot connect to +: no answer for |nothing came through "
     "for+fabring_interface",
     "Packets to that address, or their answers, are lost on the way: its kernel would answer whatever its processes "
     "do.",
     "a firewall or a security group lets through the port of rank 0 and not those of the data\na card, a cable or a "
     "network that does not reach the other host\nthe rank is busy, and more connections wait for it than its host "
     "keeps "
     "(net.core.somaxconn)",
     "fabring doctor net on all hosts names the pairs that do not reach each other, and the ports\nFABRING_INTERFACE "
     "chooses the cards\nsysctl -w net.core.somaxconn=4096"},
    {"Fabring", "", "no rank: nothing in the environment|no rank: pet_|no rank: rank=|no rank: world_size=",
     "The program was started by no launcher.",
     "it was started by itself, or through something that does not hand the environment on (sudo, ssh, docker "
     "run)\nPET_* are arguments for torchrun (Kubeflow's TrainJob sets them), which was not started",
     "fabring run -n 4 -- PROGRAM, torchrun, srun or mpirun; or FABRING_RANK, FABRING_WORLD_SIZE and "
     "FABRING_MASTER_ADDR for each rank\ndocs/launchers.md says what each launcher gives"},
    {"Fabring", "", "is set in the environment but is not a setting", "A FABRING_* variable has a name that is none.",
     "a mistyped name, or one of another version", "correct or unset it; fabring settings lists all names"},
    {"Fabring", "", "fabring.torch was built for torch", "PyTorch was changed after the backend had been built.",
     "PyTorch's C++ interface differs between versions",
     "at the root of Fabring's repository: pip install --no-build-isolation --force-reinstall --no-deps ."},
    {"Fabring", "", "no module named 'fabring.torch'|installed without its pytorch backend",
     "Fabring's Python package was installed without its PyTorch backend.",
     "pip builds where there is no torch unless told otherwise\nthe build found no torch, or one that is too old",
     "at the root of Fabring's repository: pip install scikit-build-core nanobind, then pip install "
     "--no-build-isolation --force-reinstall --no-deps .\ndocs/pytorch.md"},
    {"Fabring", "HorovodInternalError", "horovodinternalerror",
     "An operation failed; fabring.horovod has this name for fabring.Error.",
     "in the text of the error: a rank died, ranks called different things, time was up",
     "look up the code in the text, peer_lost say; start again: there is no elastic state", true},
    {"Fabring", "",
     "libhwloc.so+cannot open shared object|libhwy.so+cannot open shared object|libfmt.so+cannot open shared object|"
     "libcrypto.so+cannot open shared object",
     "A library that Fabring needs at run time is not installed on this host.",
     "it was built on another host, or in another container",
     "Debian 12: apt-get install libhwloc15 libhwy1 libssl3 libfmt9; libfabric1 for the fabric transport"},
    {"Fabring", "", "libfabring.so+cannot open shared object", "The loader does not know where Fabring's library is.",
     "it was installed under a prefix of its own",
     "link with -Wl,-rpath,PREFIX/lib, or set LD_LIBRARY_PATH=PREFIX/lib; under /usr/local run ldconfig"},
    // EFA: completion status of the device.
    {"EFA", "1 FLUSHED", "", "The queue pair of this rank had been given up, and this operation with it.",
     "the card, its driver or its firmware failed before\nthe endpoint was closed meanwhile",
     "look at the first error, not at this one; dmesg: what the efa driver says of the device; start all ranks anew"},
    {"EFA", "2 LOCAL_ERROR_QP_INTERNAL_ERROR", "", "The queue pair of this rank failed inside the device.",
     "the card, its driver or its firmware failed",
     "dmesg: what the efa driver says of the device; start all ranks anew, on another host if it comes again"},
    {"EFA", "3 LOCAL_ERROR_UNSUPPORTED_OP LOCAL_ERROR_INVALID_OP_TYPE", "", "The device does not know this operation.",
     "libfabric asks for RDMA that this kind of instance, or its driver, does not have",
     "FI_EFA_USE_DEVICE_RDMA=0, on all ranks; bring the EFA driver and libfabric up to date"},
    {"EFA", "4 LOCAL_ERROR_INVALID_AH", "", "The device refuses the address handle.",
     "the address vector was filled with an address of another job or of a closed endpoint",
     "start all ranks anew; exchange addresses after every restart"},
    {"EFA", "5 LOCAL_ERROR_INVALID_LKEY", "local key (lkey)", "The local memory key is not valid.",
     "a buffer was freed, or unmapped, while it was still registered (memory monitor off)",
     "FI_MR_CACHE_MONITOR=memhooks, or register explicitly; do not free buffers in flight"},
    {"EFA", "6 LOCAL_ERROR_BAD_LENGTH", "", "The message is longer than the device takes.",
     "the provider and the device do not agree on how long a message may be",
     "bring the EFA driver and libfabric up to date, on all hosts alike; until then FABRING_TRANSPORT=tcp"},
    {"EFA", "7 REMOTE_ERROR_BAD_ADDRESS", "remote key (rkey)", "The peer does not know that memory.",
     "the peer unregistered or freed the target", "keep the buffer until the operation is complete on both sides"},
    {"EFA", "8 REMOTE_ERROR_ABORT", "receiver connection aborted|connection was reset by remote peer",
     "The peer gave the connection up.", peer_gone, look_at_peer, true},
    {"EFA", "9 REMOTE_ERROR_BAD_DEST_QPN", "invalid receiver queue pair number|bad queue pair (qp) number",
     "The peer's queue pair is gone.", peer_gone, look_at_peer, true},
    {"EFA", "10 REMOTE_ERROR_RNR", "receiver not ready|destination resource not ready",
     "The peer has no receive posted.",
     "the peer is busy and does not drive its endpoint\nmore messages in flight than its queue holds",
     "FI_EFA_RNR_RETRY=7 retries without end; find out why that rank is stuck: fabring doctor hang"},
    {"EFA", "13 LOCAL_ERROR_UNRESP_REMOTE", "unresponsive remote (was previously responsive)",
     "The peer answered before, and does no more.", peer_gone, look_at_peer, true},
    {"EFA", "14 REMOTE_ERROR_UNKNOWN_PEER", "no valid address handle at remote side", "The peer does not know us.",
     "it has not inserted our address (needed for RDMA), or was restarted", "restart all ranks together"},
    {"EFA", "15 LOCAL_ERROR_UNREACH_REMOTE", "unreachable remote (never received a response)",
     "The peer was never reached.", security_group, security_group_remedy},
    // EFA: the provider's own.
    {"EFA", "4105 OOM", "", "The provider has no memory.", "memory or huge pages are exhausted",
     "fabring doctor host: free memory, huge pages, locked memory"},
    {"EFA", "4110 AV_INSERT", "failure inserting address into address vector|unable to insert address",
     "A peer's address could not be used.",
     "the peers are in different subnets\nthe peer runs another provider, so its address is no EFA address",
     "put all instances into one subnet; look that every host has EFA: fabring doctor host"},
    {"EFA", "4112 INTERNAL_RX_BUF_POST", "failure to post internal receive buffers",
     "The provider cannot register its own buffers.",
     "the limit on locked memory is too small (64 KiB is usual for services)\nno memory, or no huge pages, left",
     "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit of the service that starts jobs (slurmd, kubelet, "
     "containerd)\ndocker run --ulimit memlock=-1 --cap-add IPC_LOCK\nfabring doctor host: limits.memlock"},
    {"EFA", "4113 PEER_HANDSHAKE", "failure posting handshake to peer",
     "The first message to the peer could not be sent.", security_group, security_group_remedy},
    {"EFA", "4115 RTM_MISMATCH", "rtm size mismatch", "Sender and receiver disagree on a length.",
     "ranks call collectives in different orders or with different counts",
     "TORCH_DISTRIBUTED_DEBUG=DETAIL for PyTorch; Fabring reports both sides as 'mismatch'"},
    {"EFA", "4124 ESTABLISHED_RECV_UNRESP", "unresponsive receiver (connection previously established)",
     "The peer shook hands before and does not answer any more.", peer_gone, look_at_peer, true},
    {"EFA", "4126 UNESTABLISHED_RECV_UNRESP",
     "unresponsive receiver (reachable by efa device but handshake failed)|error 4126|errno 4126|err 4126|prov_errno: "
     "4126|error: 4126",
     "The peer's card is there, but the peer never answered the handshake.", security_group, security_group_remedy},
    {"EFA", "EHOSTUNREACH_EFA", "unresponsive receiver+security group|efa requires",
     "The peer does not answer over EFA.", security_group, security_group_remedy},
    // libfabric.
    {"libfabric", "FI_ENODATA -61 61", "fi_getinfo+no data available|fi_getinfo: -61|fi_getinfo failed",
     "No provider fits what was asked for.",
     "FI_PROVIDER hides the one that would\nno EFA device in this host or container\nthe name is that of another "
     "version ('net' became 'tcp' in 1.18)",
     "unset FI_PROVIDER; fi_info lists what is here\nfabring doctor host says which provider would be taken and why "
     "not EFA"},
    {"libfabric", "FI_ETRUNC 265 -265", "truncation error", "A message was longer than its receive.",
     "ranks called with different counts",
     "find the two calls; Fabring checks signatures before it reduces and reports 'mismatch'"},
    {"libfabric", "FI_EAVAIL 259 -259", "", "An error entry waits in the completion queue.",
     "see fi_cq_readerr: its prov_errno is the real code", "look that number up here"},
    {"libfabric", "FI_EOVERRUN 268 -268", "queue has been overrun", "More completions than the queue holds.",
     "a queue sized for fewer operations", "FI_EFA_CQ_SIZE, or fewer operations in flight"},
    {"libfabric", "FI_ENORX 269 -269", "no receive buffers available", "The peer had no receive posted.",
     "see EFA's code 10", "fabring doctor explain 10"},
    {"libfabric", "FI_EOTHER 256 -256", "", "An error that libfabric has no name for.",
     "the provider's own code says more (prov_errno)", "look that number up here"},
    {"libfabric", "FI_EAGAIN -11", "", "Try again: an ordinary answer, unless for ever.",
     "the peer is dead, refuses or is black-holed: providers over TCP say so without end\nno one drives the completion "
     "queue",
     "fabring doctor net; a deadline in the program that retries"},
    {"libfabric", "", "creating new endpoint+invalid argument|fi_hmem+not support",
     "The library was built without GPU memory support, or is too old.",
     "a container with its own libfabric without HMEM or CUDA",
     "use the libfabric of the EFA installer (1.22 or newer) inside the container"},
    // NCCL.
    {"NCCL", "ncclSystemError", "unhandled system error|ncclsystemerror",
     "A system call failed; the cause is in an earlier line.",
     "sockets: wrong interface, firewall, no route\n/dev/shm too small\nlocked memory too small",
     "run with NCCL_DEBUG=WARN and look at the first WARN line\nfabring doctor host on that host", true},
    {"NCCL", "ncclUnhandledCudaError", "unhandled cuda error|ncclunhandledcudaerror", "A CUDA call failed.",
     "an earlier kernel of the program failed\nGPU memory is full\ndriver and CUDA versions do not fit",
     "CUDA_LAUNCH_BLOCKING=1 shows the kernel; nvidia-smi for memory and Xid errors"},
    {"NCCL", "ncclInternalError", "internal error - please report this issue to the nccl developers|ncclinternalerror",
     "Often not internal: a peer went away during set-up, or GPUs and topology were not recognised.",
     "another rank failed first\na container sees only part of the PCI tree",
     "look for the first error of all ranks; NCCL_DEBUG=INFO", true},
    {"NCCL", "ncclInvalidUsage", "invalid usage|ncclinvalidusage", "NCCL was called in a way it refuses.",
     "two ranks on one GPU\ncommunicators used in different orders",
     "one rank to a GPU (torch.cuda.set_device(LOCAL_RANK))"},
    {"NCCL", "ncclInvalidArgument", "ncclinvalidargument", "An argument is wrong.",
     "a pointer that is not on the device, a count that differs", "NCCL_DEBUG=WARN names it"},
    {"NCCL", "ncclRemoteError", "remote process exited or there was a network error|ncclremoteerror",
     "Another rank died or its connection broke.", peer_gone, look_at_peer, true},
    {"NCCL", "", "duplicate gpu detected", "Two ranks use the same GPU.", "every process took device 0",
     "torch.cuda.set_device(LOCAL_RANK), or CUDA_VISIBLE_DEVICES per rank"},
    {"NCCL", "", "bootstrap : no socket interface found|no socket interface found", "No interface is left to use.",
     "NCCL_SOCKET_IFNAME names what is not here",
     "ip -br address; NCCL_SOCKET_IFNAME is a beginning of a name, =name an exact one\nfabring doctor host says which "
     "one Fabring would take"},
    {"NCCL", "",
     "error while creating shared memory segment|posix_fallocate failed+no space left|/dev/shm+no space left",
     "/dev/shm is full or small.", "a container has 64 MiB of it by default",
     "docker run --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm"},
    {"NCCL", "", "ibv_reg_mr+cannot allocate memory|ibv_reg_mr+failed|register memory+cannot allocate memory",
     "Memory could not be locked for the card.",
     "the limit on locked memory (ulimit -l)\nnvidia_peermem is missing (for GPU memory)",
     "ulimit -l unlimited, LimitMEMLOCK=infinity\nmodprobe nvidia_peermem\nfabring doctor host: limits.memlock, "
     "gpu.peer_memory"},
    {"NCCL", "", "got completion+error 12|ibv_wc_retry_exc_err|transport retry counter exceeded",
     "The InfiniBand card sent again and again and got no answer.",
     "the peer died or its link went down\nRoCE: no GID, wrong traffic class, packet loss without flow control",
     "look at the peer; ibstat, counters of the switch port\nNCCL_IB_TIMEOUT=22 only if links are known to be slow",
     true},
    {"NCCL", "",
     "net/ofi+no eligible provider|net/ofi+failed to initialize|net/ofi unable to find|failed to initialize net plugin",
     "The EFA plug-in found no usable provider.",
     "no EFA device in this container\nlibfabric of another version than the plug-in wants (rdma-core too)",
     "request the device (vpc.amazonaws.com/efa); one EFA installer for host and image\nfabring doctor host: "
     "fabric.efa"},
    {"NCCL", "", "using network socket", "NCCL runs over plain TCP.",
     "no plug-in was loaded: on an EFA host the library libnccl-net.so is missing or was refused",
     "NCCL_DEBUG=INFO, lines with NET/; NCCL_NET=ofi makes it an error instead of a slow job"},
    {"NCCL", "", "message truncated : receiving", "Ranks called with different sizes.",
     "different counts, or a different order of calls", "TORCH_DISTRIBUTED_DEBUG=DETAIL names the call"},
    {"NCCL", "", "nccl warn+connection refused|nccl warn+connect to+failed|net/socket+connection refused",
     "A rank could not be reached for NCCL's own connections.",
     "the other rank is gone already\na firewall refuses the port\nthe wrong interface's address was given out",
     "fabring doctor net on all hosts; NCCL_SOCKET_IFNAME"},
    // Findings of doctor itself, by family.
    {"Fabring", "hang.*", "", "A finding of fabring doctor hang: why a running job stands still.",
     "never_entered: that rank has not called what others wait in\norder: ranks wait for each other in a circle\n"
     "stopped, silent: its process is stopped; it is dead or cut off\nmismatch: ranks called different things\n"
     "link: what a rank has sent does not arrive\ndriver: its thread is held up inside the program's reduction or the "
     "provider\nleft, lost, failed: a rank has left; a communicator has failed\nstanding, unheard, unreachable: not "
     "certain yet",
     "fabring doctor hang says of each what was seen and what to do; docs/doctor.md lists all"},
    {"Fabring", "net.*", "", "A finding of fabring doctor net, or of fabring doctor host about the network.",
     "rendezvous, lost: ranks did not meet, or one died\nrefused, dropped, no_route, reset, mute: a connection failed "
     "so\n"
     "wrong_service, turned_away, address_twice: somebody else answers there\nmtu, slow_large: small messages pass and "
     "large ones do not, or late\nversion, settings, mismatch, interfaces, networks, mtu_differs: hosts differ",
     "fabring doctor net, or host, says of each what was seen and what to do; docs/doctor.md lists all"},
    {"Fabring", "bench.*", "", "A finding of fabring doctor bench: a link, direction, host or card that stands out.",
     "slow_*: slower than the others\nloss: packets are sent again\nstuck, lost, start: it could not be measured",
     "fabring doctor bench says of each what was seen and what to do; docs/doctor.md says how it is judged"},
    {"Fabring", "environment.* limits.* memory.* processors.* nic.* pci.* names.* fabric.* gpu.* container.* clock.*",
     "", "A finding of fabring doctor host.", "what it names on that host is missing, wrong, or less than it could be",
     "fabring doctor host --all there says what was seen, why it matters and what to do"},
    // PyTorch and Gloo.
    {"PyTorch", "", "watchdog caught collective operation timeout|collective operation timeout",
     "A collective did not end within the process group's timeout.",
     "a rank never called it: it crashed, is loading data or saving, or took another branch\na link is stuck",
     "the flight recorder (TORCH_FR_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT=1) names ranks that are missing\nlook at "
     "the rank with the lowest sequence number",
     true},
    {"PyTorch", "", "connectfullmesh failed", "Gloo could not connect all pairs.",
     "the host's own name resolves to 127.0.0.1 or 127.0.1.1, and that address was given to others\na firewall",
     "GLOO_SOCKET_IFNAME=<interface>; a line with the real address in /etc/hosts\nfabring doctor host: names.own"},
    {"PyTorch", "", "the server socket has failed to listen|eaddrinuse|address already in use", "The port is taken.",
     "an earlier job still runs, or ended a moment ago\ntwo jobs on one host with the same MASTER_PORT",
     "ss -ltnp shows who; another MASTER_PORT, or --rdzv-endpoint=localhost:0"},
    {"PyTorch", "", "the client socket has timed out|timed out+waiting for clients|diststoreerror",
     "Not all ranks met at MASTER_ADDR:MASTER_PORT.",
     "a rank did not start\nMASTER_ADDR is not reachable from all hosts (firewall, loopback, wrong interface)",
     "fabring doctor net with the same environment names who is missing"},
    {"PyTorch", "", "the client socket has failed to connect to any network address",
     "The store of rank 0 was not reached at MASTER_ADDR:MASTER_PORT, at none of the addresses of that name.",
     "rank 0 did not start, or ended before this rank came\nMASTER_ADDR does not resolve here, or to another host "
     "(lines before this one say which address failed, and why)\na firewall refuses or drops the port\nMASTER_PORT "
     "differs between hosts",
     "look at rank 0's output; on this host: getent hosts NAME; fabring doctor net with the same environment tries it"},
    {"PyTorch", "RendezvousConnectionError", "rendezvousconnectionerror|the connection to the c10d store has failed",
     "torchrun did not reach the store at its --rdzv-endpoint.",
     "torchrun does not run yet, or no more, on the host of --rdzv-endpoint, which has the store\nthat host does not "
     "take the name for its own, so nobody has the store\nthe name does not resolve here, or a firewall stops the port",
     "start torchrun on that host first, and look at its output\n--rdzv-endpoint alike on all hosts, with a name that "
     "the first one knows itself by; else --rdzv-conf is_host=1 there and is_host=0 on the others\ngetent hosts NAME; "
     "nc -vz NAME PORT from this host"},
    {"PyTorch", "RendezvousTimeoutError", "rendezvoustimeouterror",
     "Fewer hosts than --nnodes asks for came to torchrun's rendezvous in time.",
     "torchrun was not started on all hosts, or ended on one\n--nnodes, --rdzv-id or --rdzv-endpoint differ between "
     "hosts\na host was too late: its image was still loading, or it waited for its turn",
     "compare the arguments of torchrun on all hosts, and look at the hosts that are missing\nmore time: --rdzv-conf "
     "join_timeout=SECONDS (600 unless set)"},
    {"PyTorch", "", "timed out initializing process group in store based barrier",
     "Some ranks did not make this process group: num_workers_joined of world_size in the line did.",
     "a rank ended, or hangs, before it came to init_process_group or new_group\nnew_group was called by its members "
     "only: all ranks must call it, unless use_local_synchronization=True\nranks make their groups in different orders",
     "look at the output of the ranks that do not report this error\nmake all groups on all ranks, in one order", true},
    {"PyTorch", "", "detected mismatch between collectives on ranks",
     "Ranks called different collectives, or with different shapes or types; the line names both.",
     "a branch that only some ranks take (if rank == 0, an exception that one caught)\nranks have different numbers "
     "of batches\nthe parameters are not the same on all ranks, or in another order",
     "compare the two fingerprints in the line: the sequence number tells which call it is\nFabring compares every "
     "call, and reports both sides as 'mismatch'"},
    {"PyTorch", "", "error: socket timeout",
     "The store did not answer in time: mostly a key that another rank should have set.",
     "the rank that sets it (rank 0, for a communicator of NCCL) ended, hangs, or has not come so far\nthe host of "
     "the store is overloaded, or cannot be reached any more",
     "look for the first error of all ranks, and at what rank 0 does\ninit_process_group(timeout=...) where a rank is "
     "slow with good reason",
     true},
    {"PyTorch", "", "timed out waiting+ms for+operation to complete",
     "Gloo waited for a message of another rank for as long as the group's timeout.",
     "a rank did not call this collective: it crashed, hangs, saves or loads data, or took another branch\nthe link "
     "to it swallows packets",
     "look at the ranks that do not report this error: py-spy dump --pid PID shows where one "
     "is\ninit_process_group(timeout=...) where a rank is slow with good reason\nfabring doctor net for the links",
     true},
    {"PyTorch", "", "gloo+connection closed by peer|gloo+connection reset by peer", "A peer of Gloo ended.", peer_gone,
     look_at_peer, true},
    {"PyTorch", "", "dataloader worker+bus error|dataloader worker+killed by signal",
     "A data loader's process was killed.",
     "/dev/shm is too small (Bus error)\nthe kernel killed it for memory (Killed)",
     "a larger /dev/shm: docker run --shm-size=8g; fewer workers"},
    // How a job ends, and the system.
    {"Fabring", "124", "exit code 124|exit code:+124|status 124",
     "The time of a job was up: of fabring run --timeout, or of the system's timeout command.",
     "a rank hangs\nthe job takes longer than it was given",
     "fabring doctor hang while such a job runs: it says who waits for whom\na longer --timeout"},
    {"system", "SIGBUS 135 -7", "bus error", "A mapped file had no room behind it: nearly always /dev/shm.",
     "/dev/shm is full", "docker run --shm-size=8g; df /dev/shm"},
    {"system", "SIGKILL 137 -9",
     "out of memory: killed process|oom-kill|oomkilled|exitcode+: -9|signal 9 (sigkill)|exited on signal 9|status 137|"
     "exit code 137|exit code:+137|srun: error:+: killed",
     "The process was killed.",
     "the kernel, or the container's limit, for memory\nthe scheduler (time limit), or a person",
     "dmesg | grep -i oom; kubectl describe pod; sacct"},
    {"system", "SIGSEGV 139",
     "segmentation fault|exitcode+: -11|signal 11 (sigsegv)|exited on signal 11|status 139|exit code 139|exit "
     "code:+139",
     "The process read or wrote where it has no memory.",
     "a bug of the program or of a native library that it uses\na buffer that was freed while an operation still used "
     "it\nlibraries of versions that do not fit",
     "ulimit -c unlimited, run again, gdb PROGRAM CORE -batch -ex 'thread apply all bt'; coredumpctl gdb\nPython: "
     "PYTHONFAULTHANDLER=1 prints where it was\nlook at the first rank that ended so: others follow it"},
    {"system", "SIGABRT 134",
     "aborted (core dumped)|exitcode+: -6 |signal 6 (sigabrt)|exited on signal 6|status 134|exit code 134|exit "
     "code:+134|"
     "srun: error:+: aborted",
     "The process ended itself: it found something that must not be.",
     "an assertion or an exception that nobody caught; its text stands before\nmemory that was overwritten (\"free(): "
     "invalid pointer\")",
     "look for the last lines of that rank before it ended"},
    {"system", "SIGTERM 143",
     "exitcode+: -15|signal 15 (sigterm)|exited on signal 15|status 143|exit code 143|exit code:+143|srun: error:+: "
     "terminated",
     "The process was told to end.",
     "its launcher ends all ranks once one has failed\nthe scheduler: its time limit, or the job was cancelled",
     "look for the rank that failed first; sacct, kubectl describe pod", true},
    {"system", "", "error while loading shared libraries", "The loader does not find a library that the program needs.",
     "it is not installed on that host, or in that container (libfabric.so.1: Debian's libfabric1)\nit is in a folder "
     "that the loader does not search; ranks on other hosts have the environment of a login there",
     "ldd PROGRAM on that host\ninstall it on all hosts, or name its folder: LD_LIBRARY_PATH, passed on with fabring "
     "run "
     "-x LD_LIBRARY_PATH"},
    {"system", "EMFILE", "too many open files", "The limit on open files is reached.",
     "one socket or more for every other rank, besides data loaders",
     "ulimit -n 65536; LimitNOFILE in the systemd unit"},
    {"system", "EADDRNOTAVAIL", "cannot assign requested address",
     "No ephemeral port is left, or the address is not of this host.",
     "thousands of connections in TIME_WAIT\nan interface name or address of another host in the environment",
     "sysctl net.ipv4.ip_local_port_range; fabring doctor host"},
    {"system", "EAI_NONAME EAI_AGAIN", "name or service not known|temporary failure in name resolution",
     "A host name cannot be resolved.",
     "DNS of the job is not ready yet (Kubernetes: headless service)\na mistyped MASTER_ADDR",
     "getent hosts NAME on that host; the address instead of the name"},
    {"system", "ENOSPC", "no space left on device", "A file system is full: often /dev/shm.",
     "/dev/shm or the disk of checkpoints is full", "df -h; df /dev/shm"},
    {"system", "ENOMEM -12 12", "cannot allocate memory", "No memory, or it could not be locked.",
     "the limit on locked memory when an RDMA card is used\nhuge pages used up by processes that fork\nthe host is out "
     "of memory",
     "fabring doctor host: limits.memlock, memory.huge_pages, memory.free"},
    {"system", "ECONNREFUSED 111 -111", "connection refused", "The host answered that nobody listens there.",
     "the other rank is not up yet, or is gone\na firewall that rejects\nthe wrong port",
     "fabring doctor net tells refused from dropped", true},
    {"system", "ETIMEDOUT 110 -110", "connection timed out", "Nobody answered at all.",
     "a firewall that drops\na host that is down\nan address that leads elsewhere (docker0, another VPC)",
     "fabring doctor net; FABRING_INTERFACE"},
    {"system", "EHOSTUNREACH 113 -113", "no route to host", "There is no way to that address.",
     "another subnet without a route\na firewall that answers so (firewalld)",
     "ip route get ADDRESS; firewall-cmd --list-all"},
    {"system", "ECONNRESET 104 -104", "connection reset by peer", "The other side dropped the connection.", peer_gone,
     look_at_peer, true},
    {"system", "EPIPE 32 -32", "broken pipe", "The other side had closed already.", peer_gone, look_at_peer, true},
    {"CUDA", "", "cuda error: out of memory|cuda out of memory|cuda_error_out_of_memory", "The GPU's memory is full.",
     "the model and its batch need more than there is\nanother process is on that GPU: one of an earlier job, or "
     "every rank took device 0\nmemory is there, but in pieces",
     "nvidia-smi lists the processes on each GPU\ntorch.cuda.set_device(LOCAL_RANK) before anything else, one rank to "
     "a GPU\na smaller batch; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against pieces"},
    {"NVIDIA driver", "", "nvrm: xid", "The GPU reported a fault.",
     "79: fallen off the bus; 48, 63, 64, 94, 95: memory; 31, 13: an error of the program; 74: NVLink",
     "nvidia-smi -q; drain the host for 48, 63, 64, 74, 79, 94, 95"},
};

}  // namespace

std::span<const Explanation> explanations() { return all_explanations; }

}  // namespace fabring::tools
