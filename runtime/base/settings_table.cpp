// The settings, a row for each. A description is broken between sentences where it can be.

#include "runtime/base/setting_values.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t most_segment_bytes = 1ull << 30;  // lengths on the wire have 32 bits
// A process has 128 TiB of addresses, and maps what each rank of its host has: more than this is a slip.
constexpr std::uint64_t most_scratch_bytes = 4ull << 40, most_mapped_bytes = 32ull << 40;
constexpr int most_ranks = 1 << 20;  // larger numbers are slips, and would size tables

constexpr bool alike = true;

// clang-format off
constexpr Setting rows[] = {
    {"FABRING_RANK", "integer", "", "", "from the launcher",
     "Number of this rank, 0 to the world size - 1. Every rank of a job has another one.",
     read_integer<&Config::rank, 0, most_ranks - 1>, show_rank<&Config::rank>},
    {"FABRING_WORLD_SIZE", "integer", "ranks", "", "from the launcher",
     "How many ranks the job has.",
     read_integer<&Config::world_size, 1, most_ranks>, show_rank<&Config::world_size>},
    {"FABRING_LOCAL_RANK", "integer", "", "", "from the launcher",
     "Number of this rank among those of its host. "
     "A hint for spreading ranks over devices; which ranks share a host is found out, never taken from here.",
     read_integer<&Config::local_rank, 0, most_ranks - 1>, show_rank<&Config::local_rank>},
    {"FABRING_MASTER_ADDR", "text", "", "", "from the launcher",
     "Name or address at which every rank reaches the host of rank 0. Rank 0 waits for the others there; where a name "
     "is only loopback on its host (/etc/hosts of Debian), at its interfaces too.",
     read_text<&Config::master_addr>, show_text<&Config::master_addr>},
    {"FABRING_MASTER_PORT", "integer", "", "", "from the launcher, or 29431",
     "TCP port of the meeting point. Given here, exactly this port is used. A port that comes from a launcher may "
     "belong to the launcher's own store; then the ranks meet at one of the ports after it.",
     read_integer<&Config::master_port, 1, 65535>, show_number<&Config::master_port>},
    {"FABRING_JOB_ID", "text", "", "", "from the launcher, or empty",
     "Name of the job, the same on all its ranks. Ranks of other jobs that call at the wrong door are turned away.",
     read_text<&Config::job_id>, show_text<&Config::job_id>},
    {"FABRING_HOST_ID", "text", "", "", "none",
     "Splits one host into several nodes: ranks with different values count as ranks of different hosts. "
     "It can not join hosts. For trying out hierarchical algorithms on one machine.",
     read_text<&Config::host_id>, show_text<&Config::host_id>},
    {"FABRING_SECRET_FILE", "text", "", "", "none",
     "File with a secret of 16 bytes or more, readable by its owner only, the same for all ranks. With it every "
     "connection that Fabring makes itself proves that both ends know the secret (HMAC-SHA256), and a number made "
     "with it marks libfabric's messages, which prove nothing.",
     read_text<&Config::secret_file>, show_text<&Config::secret_file>},
    {"FABRING_INTERFACE", "list", "", "", "chosen",
     "Network interfaces to use: names (eth0,ib0), beginnings of names (eth*), networks (10.0.0.0/8, fd00::/8), or, "
     "after a ^, those not to use (^docker0,lo). EFA devices can be named too: ^rdmap16s27 leaves one out.",
     read_text<&Config::interface>, show_text<&Config::interface>},
    {"FABRING_RAILS", "integer", "network cards", "", "chosen",
     "Network cards that a rank uses at once, at most. Chosen: all that are up, reach the other hosts and are as fast "
     "as the fastest; with an allow list in FABRING_INTERFACE all that it names. Ranks of one host share them. "
     "1: only the way to the master.",
     read_integer<&Config::rails, 1, 16>, show_number<&Config::rails>},
    {"FABRING_TRANSPORT", "list", "", "auto,shm,fabric,tcp,inproc", "",
     "What data may travel on. shm: memory that the ranks of one host share. "
     "Of the networks, the first that works on every rank: fabric (libfabric), tcp (sockets). auto: shm,fabric,tcp. "
     "Without shm the ranks of one host use the network as well; auto takes tcp first there where the system's "
     "congestion control is bbr. "
     "inproc: ranks that are threads of one process, for tests.",
     read_word_list<&Config::transport>, show_text<&Config::transport>, alike},
    {"FABRING_PROVIDER", "text", "", "", "",
     "libfabric provider for the fabric transport: auto (efa, else tcp), efa, tcp (native reliable datagrams over "
     "TCP), rxm (tcp;ofi_rxm, slow) or a name of libfabric's (docs/providers.md).",
     read_text<&Config::provider>, show_text<&Config::provider>},
    {"FABRING_ALGORITHM", "text", "", "", "",
     "auto: the algorithm with the lowest predicted time. One that all collectives which have it are to use: ring. Or "
     "a list of rules, collective:sizes:algorithm, of which the first that fits decides: "
     "allreduce:64K-4M:circulant,broadcast:chain.",
     read_text<&Config::algorithm>, show_text<&Config::algorithm>, alike},
    {"FABRING_MACHINE", "text", "",
     "auto,probe,shared-memory,cuda-ipc,loopback-tcp,loopback-fabric,1g,10g,100g,efa-400,efa-3200", "",
     "The machine that algorithms are priced for. auto: on one host by transport and GPUs in use; on several by the "
     "number and speed of their cards where these move bytes themselves (EFA), else the links are measured at "
     "start-up; 0.1 to 0.2 s with the short messages that are measured. "
     "probe: everything is measured, some 0.4 s more, on busy hosts up to 1.2 s. "
     "A path, with a / in it: a file that describes one (docs/scale.md). Rank 0's counts.",
     read_word_or_path<&Config::machine>, show_text<&Config::machine>},
    {"FABRING_REPRODUCIBLE", "flag", "", "", "",
     "Reduce in the order of the ranks, rounding once: results do not depend on sizes of segments, transport, nodes "
     "or timing (docs/algorithms.md). Costs speed with many ranks.",
     read_flag<&Config::reproducible>, show_flag<&Config::reproducible>, alike},
    {"FABRING_WIRE_TYPE", "text", "", "off,bfloat16,float16", "",
     "As what float32 allreduces that add (sum, avg, premul_sum) travel: bfloat16 or float16 halve the bytes; every "
     "addition is in float32, and its sum rounded to that type, of an avg before it is divided: in float16 what reaches "
     "65520 on the way is infinity (docs/algorithms.md has the error). "
     "A single operation may say otherwise. GPU memory passes through the host for it.",
     read_wire_type, show_wire_type, alike},
    {"FABRING_SOCKETS_PER_PEER", "integer", "sockets", "", "chosen",
     "TCP connections between two ranks (tcp transport), 1 to 16. More of them fill a fast link that one flow can not.",
     read_integer<&Config::sockets_per_peer, 1, 16>, show_number<&Config::sockets_per_peer>},
    {"FABRING_CONGESTION_CONTROL", "text", "", "", "",
     "TCP congestion control of the data connections (tcp transport), by the kernel's name (cubic, bbr, ...). "
     "auto: cubic on loopback where allowed, the system's choice elsewhere. "
     "Over libfabric the system's (net.ipv4.tcp_congestion_control) counts.",
     read_text<&Config::congestion_control>, show_text<&Config::congestion_control>},
    {"FABRING_SEGMENT_BYTES", "size", "bytes", "", "chosen",
     "Largest block in flight, 1G at most. Smaller ones pipeline better, larger ones cost less per byte.",
     read_size<&Config::segment_bytes, 64, most_segment_bytes>, show_size<&Config::segment_bytes>, alike},
    {"FABRING_DEPTH", "integer", "tiles", "", "chosen",
     "Tiles in flight per operation.",
     read_integer<&Config::depth, 1, 1024>, show_number<&Config::depth>, alike},
    {"FABRING_SCRATCH_BYTES", "size", "bytes", "", "32 MiB",
     "Limit of what an engine holds for its connections, beyond 64 KiB for each peer, and for scratch; 4T at most. "
     "Operations that do not fit wait for others to finish; only one message of each communicator may pass it "
     "(docs/memory.md). Little of it on one rank makes FABRING_SEGMENT_BYTES smaller on all.",
     read_size<&Config::scratch_bytes, 4096, most_scratch_bytes>, show_size<&Config::scratch_bytes>},
    {"FABRING_MAPPED_BYTES", "size", "bytes", "", "this host's memory",
     "Limit of the memory that a rank allocates for the ranks of its host to read and write directly "
     "(fabring_mem_alloc); 32T at most. What is not allocated costs nothing but addresses; where those are limited "
     "(ulimit -v, -f) there is none unless this is set.",
     read_size<&Config::mapped_bytes, 4096, most_mapped_bytes>, show_size<&Config::mapped_bytes>},
    {"FABRING_STAGING_BYTES", "size", "bytes", "", "64 MiB",
     "Limit of the pinned memory of an engine, through which data in GPU memory travel; 4T at most. "
     "Little of it makes fewer tiles overlap.",
     read_size<&Config::staging_bytes, 4096, most_scratch_bytes>, show_size<&Config::staging_bytes>},
    {"FABRING_GPU_PATH", "text", "", "auto,staged", "",
     "Ranks of one host read each other's GPU memory where it is (CUDA IPC), and network cards read and write it "
     "(GPUDirect), if they can; staged: it always travels through memory of the host.",
     read_word<&Config::gpu_path>, show_text<&Config::gpu_path>},
    {"FABRING_RENDEZVOUS_TIMEOUT", "duration", "s", "", "",
     "How long ranks wait for each other at the start, in each step of it. The error names the ranks that did not "
     "come: for that word of rank 0, which may have begun later, others wait up to 1 s longer (2 s in a store), and "
     "rank 0 stays 1 s longer to give it to those who come late.",
     read_duration<&Config::rendezvous_timeout>, show_duration<&Config::rendezvous_timeout>},
    {"FABRING_TIMEOUT", "duration", "s", "", "",
     "How long one operation may take while all ranks are alive, the wait for a late rank included.",
     read_duration<&Config::timeout>, show_duration<&Config::timeout>},
    {"FABRING_SILENCE_TIMEOUT", "duration", "s", "", "",
     "How long a rank may be silent (stopped, cut off) before it is given up. "
     "A rank whose process ended is noticed at once, whatever this says. At least 2 s.",
     read_silence, show_duration<&Config::silence_timeout>},
    {"FABRING_LEAVE_TIMEOUT", "duration", "s", "", "",
     "How long a rank that leaves waits for the others to leave too.",
     read_duration<&Config::leave_timeout>, show_duration<&Config::leave_timeout>},
    {"FABRING_LOG", "text", "", "none,error,warning,info,debug", "",
     "What is written to stderr, or handed to the program's log: this level and the worse ones. "
     "none: only what FABRING_EXPLAIN asks for.",
     read_word<&Config::log>, show_text<&Config::log>},
    {"FABRING_EXPLAIN", "flag", "", "", "",
     "Say at the start why this transport, this interface and these algorithms.",
     read_flag<&Config::explain>, show_flag<&Config::explain>},
    {"FABRING_STATUS", "flag", "", "", "",
     "Answer `fabring status` and `fabring doctor hang` of the same user, over an abstract unix socket of this host. "
     "No port is opened.",
     read_flag<&Config::status>, show_flag<&Config::status>},
};
// clang-format on

}  // namespace

std::span<const Setting> settings() { return rows; }

}  // namespace fabring
