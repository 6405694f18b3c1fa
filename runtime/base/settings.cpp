#include "runtime/base/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/service_links.hpp"

extern char** environ;  // POSIX: declared by no header unless _GNU_SOURCE is set

namespace fabring {
namespace {

using Read = Status (*)(const Setting&, std::string_view, Config&);
using Show = std::string (*)(const Config&);

constexpr std::uint64_t most_segment_bytes = 1ull << 30;  // lengths on the wire have 32 bits
// A process has 128 TiB of addresses, and maps what each rank of its host has: more than this is a slip.
constexpr std::uint64_t most_scratch_bytes = 4ull << 40, most_mapped_bytes = 32ull << 40;
constexpr int most_ranks = 1 << 20;  // larger numbers are slips, and would size tables

template <auto Field, std::int64_t least, std::int64_t most>
Status read_integer(const Setting&, std::string_view text, Config& into) {
  auto value = parse_integer(text, least, most);
  if (!value) return value.error();
  into.*Field = static_cast<std::remove_reference_t<decltype(into.*Field)>>(*value);
  return {};
}

template <auto Field>
Status read_duration(const Setting&, std::string_view text, Config& into) {
  auto value = parse_duration(text);
  if (!value) return value.error();
  into.*Field = *value;
  return {};
}

/// A rank says that it lives once a second, and may be late.
Status read_silence(const Setting&, std::string_view text, Config& into) {
  constexpr std::chrono::seconds least(2);
  auto value = parse_duration(text);
  if (!value) return value.error();
  if (*value < least)
    return {
        ErrorCode::invalid_argument,
        fmt::format("'{}' is less than 2 s: ranks say once a second that they live, and healthy ones would be given up",
                    text)};
  into.silence_timeout = *value;
  return {};
}

template <auto Field, std::uint64_t least, std::uint64_t most = std::numeric_limits<std::uint64_t>::max()>
Status read_size(const Setting&, std::string_view text, Config& into) {
  auto value = parse_size(text);
  if (!value) return value.error();
  if (*value < least) return {ErrorCode::invalid_argument, fmt::format("'{}' is less than {}", text, size_text(least))};
  if (*value > most) return {ErrorCode::invalid_argument, fmt::format("'{}' is more than {}", text, size_text(most))};
  into.*Field = static_cast<std::size_t>(*value);
  return {};
}

template <auto Field>
Status read_text(const Setting&, std::string_view text, Config& into) {
  constexpr std::size_t longest = 1024;
  if (text.size() > longest)
    return {ErrorCode::invalid_argument, fmt::format("{} characters; at most {} are allowed", text.size(), longest)};
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return {ErrorCode::invalid_argument, "it holds a control character"};
  into.*Field = std::string(text);
  return {};
}

Status read_wire_type(const Setting&, std::string_view text, Config& into) {
  const auto type = parse_data_type(text);
  if (text != "off" && type != DataType::bfloat16 && type != DataType::float16)
    return {ErrorCode::invalid_argument, fmt::format("'{}' is not one of off, bfloat16 (bf16), float16 (f16)", text)};
  into.wire_type = type;
  return {};
}

std::vector<std::string_view> words_of(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const std::size_t comma = choices.find(',');
    words.push_back(choices.substr(0, comma));
    choices.remove_prefix(comma == std::string_view::npos ? choices.size() : comma + 1);
  }
  return words;
}

Status check_word(const Setting& row, std::string_view word) {
  const std::vector<std::string_view> words = words_of(row.choices);
  for (std::string_view known : words)
    if (word == known) return {};
  return {ErrorCode::invalid_argument,
          fmt::format("'{}' is not one of {}{}", word, fmt::join(words, ", "), did_you_mean(word, words))};
}

template <auto Field>
Status read_word(const Setting& row, std::string_view text, Config& into) {
  FABRING_TRY(check_word(row, text));
  into.*Field = std::string(text);
  return {};
}

template <auto Field>
Status read_word_or_path(const Setting& row, std::string_view text, Config& into) {
  if (text.find('/') != std::string_view::npos) {
    into.*Field = std::string(text);
    return {};
  }
  Status status = read_word<Field>(row, text, into);
  if (!status.ok() && text.find('.') != std::string_view::npos)
    return {ErrorCode::invalid_argument,
            fmt::format("{}; a file is written with a slash: ./{}", status.message(), text)};
  return status;
}

// A list of the row's words, kept as text; "auto" stands alone.
template <auto Field>
Status read_word_list(const Setting& row, std::string_view text, Config& into) {
  auto items = parse_list(text);
  if (!items) return items.error();
  for (const std::string& item : *items) {
    FABRING_TRY(check_word(row, item));
    if (item == "auto" && items->size() > 1)
      return {ErrorCode::invalid_argument, fmt::format("'{}': auto stands alone, not in a list", text)};
  }
  into.*Field = fmt::format("{}", fmt::join(*items, ","));
  return {};
}

template <auto Field>
Status read_flag(const Setting&, std::string_view text, Config& into) {
  auto value = parse_flag(text);
  if (!value) return value.error();
  into.*Field = *value;
  return {};
}

template <auto Field>
std::string show_text(const Config& from) {
  return from.*Field;
}
template <auto Field>
std::string show_number(const Config& from) {  // the default, 0, means "chosen" or "not set"
  return from.*Field != 0 ? fmt::format("{}", from.*Field) : std::string();
}
template <auto Field>
std::string show_rank(const Config& from) {
  return from.*Field >= 0 ? fmt::format("{}", from.*Field) : std::string();
}
template <auto Field>
std::string show_size(const Config& from) {
  return from.*Field > 0 ? size_text(from.*Field) : std::string();
}
template <auto Field>
std::string show_duration(const Config& from) {
  return duration_text(from.*Field);
}
template <auto Field>
std::string show_flag(const Config& from) {
  return from.*Field ? "yes" : "no";
}
std::string show_wire_type(const Config& from) {
  return from.wire_type ? std::string(name(*from.wire_type)) : std::string("off");
}

constexpr bool alike = true;

constexpr Setting rows[] = {
    {"FABRING_RANK", "integer", "", "", "from the launcher",
     "Number of this rank, 0 to the world size - 1. Every rank of a job has another one.",
     read_integer<&Config::rank, 0, most_ranks - 1>, show_rank<&Config::rank>},
    {"FABRING_WORLD_SIZE", "integer", "ranks", "", "from the launcher", "How many ranks the job has.",
     read_integer<&Config::world_size, 1, most_ranks>, show_rank<&Config::world_size>},
    {"FABRING_LOCAL_RANK", "integer", "", "", "from the launcher",
     "Number of this rank among those of its host. A hint for spreading ranks over devices; which ranks share a host "
     "is "
     "found out, never taken from here.",
     read_integer<&Config::local_rank, 0, most_ranks - 1>, show_rank<&Config::local_rank>},
    {"FABRING_MASTER_ADDR", "text", "", "", "from the launcher",
     "Name or address at which every rank reaches the host of rank 0. Rank 0 waits for the others there; where a name "
     "is only loopback on its host (/etc/hosts of Debian), at its interfaces too.",
     read_text<&Config::master_addr>, show_text<&Config::master_addr>},
    {"FABRING_MASTER_PORT", "integer", "", "", "from the launcher, or 29431",
     "TCP port of the meeting point. Given here, exactly this port is used. A port that comes from a launcher may "
     "belong to "
     "the launcher's own store; then the ranks meet at one of the ports after it.",
     read_integer<&Config::master_port, 1, 65535>, show_number<&Config::master_port>},
    {"FABRING_JOB_ID", "text", "", "", "from the launcher, or empty",
     "Name of the job, the same on all its ranks. Ranks of other jobs that call at the wrong door are turned away.",
     read_text<&Config::job_id>, show_text<&Config::job_id>},
    {"FABRING_HOST_ID", "text", "", "", "none",
     "Splits one host into several nodes: ranks with different values count as ranks of different hosts. It can not "
     "join "
     "hosts. For trying out hierarchical algorithms on one machine.",
     read_text<&Config::host_id>, show_text<&Config::host_id>},
    {"FABRING_SECRET_FILE", "text", "", "", "none",
     "File with a secret of 16 bytes or more, readable by its owner only, the same for all ranks. With it every "
     "connection that Fabring makes itself proves that both ends know the secret (HMAC-SHA256), and a number made with "
     "it marks libfabric's messages, which prove nothing.",
     read_text<&Config::secret_file>, show_text<&Config::secret_file>},
    {"FABRING_INTERFACE", "list", "", "", "chosen",
     "Network interfaces to use: names (eth0,ib0), beginnings of names (eth*), networks (10.0.0.0/8, fd00::/8), or, "
     "after "
     "a ^, those not to use (^docker0,lo). EFA devices can be named too: ^rdmap16s27 leaves one out.",
     read_text<&Config::interface>, show_text<&Config::interface>},
    {"FABRING_RAILS", "integer", "network cards", "", "chosen",
     "Network cards that a rank uses at once, at most. Chosen: all that are up, reach the other hosts and are as fast "
     "as "
     "the fastest; with an allow list in FABRING_INTERFACE all that it names. Ranks of one host share them. 1: only "
     "the "
     "way to the master.",
     read_integer<&Config::rails, 1, 16>, show_number<&Config::rails>},
    {"FABRING_TRANSPORT", "list", "", "auto,shm,fabric,tcp,inproc", "",
     "What data may travel on. shm: memory that the ranks of one host share. Of the networks, the first that works on "
     "every rank: fabric (libfabric), tcp (sockets). auto: shm,fabric,tcp. Without shm the ranks of one host use the "
     "network as well. inproc: ranks that are threads of one process, for tests.",
     read_word_list<&Config::transport>, show_text<&Config::transport>, alike},
    {"FABRING_PROVIDER", "text", "", "", "",
     "libfabric provider for the fabric transport: auto (efa, else tcp), efa, tcp (native reliable datagrams over "
     "TCP), "
     "rxm (tcp;ofi_rxm, slow) or a name of libfabric's (docs/providers.md).",
     read_text<&Config::provider>, show_text<&Config::provider>},
    {"FABRING_ALGORITHM", "text", "", "", "",
     "auto: the algorithm with the lowest predicted time. One that all collectives which have it are to use: ring. Or "
     "a "
     "list of rules, collective:sizes:algorithm, of which the first that fits decides: "
     "allreduce:64K-4M:circulant,broadcast:chain.",
     read_text<&Config::algorithm>, show_text<&Config::algorithm>, alike},
    {"FABRING_MACHINE", "text", "",
     "auto,probe,shared-memory,cuda-ipc,loopback-tcp,loopback-fabric,1g,10g,100g,efa-400,efa-3200", "",
     "The machine that algorithms are priced for. auto: on one host by transport and GPUs in use; on several by the "
     "number and speed of their cards where these move bytes themselves (EFA), else the links are measured at "
     "start-up; "
     "0.1 to 0.2 s with the short messages that are measured. probe: everything is measured, up to 0.4 s "
     "more. A path, with a / in it: a file that describes one (docs/scale.md). Rank 0's counts.",
     read_word_or_path<&Config::machine>, show_text<&Config::machine>},
    {"FABRING_REPRODUCIBLE", "flag", "", "", "",
     "Reduce in the order of the ranks, rounding once: results do not depend on sizes of segments, transport, nodes or "
     "timing (docs/algorithms.md). Costs speed with many ranks.",
     read_flag<&Config::reproducible>, show_flag<&Config::reproducible>, alike},
    {"FABRING_WIRE_TYPE", "text", "", "off,bfloat16,float16", "",
     "As what float32 allreduces that add (sum, avg, premul_sum) travel: bfloat16 or float16 halve the bytes; every "
     "addition is in float32 and then rounded (docs/algorithms.md has the error). A single operation may say "
     "otherwise. GPU memory passes through the host for it.",
     read_wire_type, show_wire_type, alike},
    {"FABRING_SOCKETS_PER_PEER", "integer", "sockets", "", "chosen",
     "TCP connections between two ranks (tcp transport), 1 to 16. More of them fill a fast link that one flow can not.",
     read_integer<&Config::sockets_per_peer, 1, 16>, show_number<&Config::sockets_per_peer>},
    {"FABRING_CONGESTION_CONTROL", "text", "", "", "",
     "TCP congestion control of the data connections (tcp transport), by the kernel's name (cubic, bbr, ...). auto: "
     "cubic on loopback where allowed, the system's choice elsewhere. Over libfabric the system's "
     "(net.ipv4.tcp_congestion_control) counts.",
     read_text<&Config::congestion_control>, show_text<&Config::congestion_control>},
    {"FABRING_SEGMENT_BYTES", "size", "bytes", "", "chosen",
     "Largest block in flight, 1G at most. Smaller ones pipeline better, larger ones cost less per byte.",
     read_size<&Config::segment_bytes, 64, most_segment_bytes>, show_size<&Config::segment_bytes>, alike},
    {"FABRING_DEPTH", "integer", "tiles", "", "chosen", "Tiles in flight per operation.",
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
     "Limit of the pinned memory of an engine, through which data in GPU memory travel; 4T at most. Little of it makes "
     "fewer tiles overlap.",
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
     "How long a rank may be silent (stopped, cut off) before it is given up. A rank whose process ended is noticed at "
     "once, whatever this says. At least 2 s.",
     read_silence, show_duration<&Config::silence_timeout>},
    {"FABRING_LEAVE_TIMEOUT", "duration", "s", "", "", "How long a rank that leaves waits for the others to leave too.",
     read_duration<&Config::leave_timeout>, show_duration<&Config::leave_timeout>},
    {"FABRING_LOG", "text", "", "none,error,warning,info,debug", "",
     "What is written to stderr, or handed to the program's log: this level and the worse ones. none: only what "
     "FABRING_EXPLAIN asks for.",
     read_word<&Config::log>, show_text<&Config::log>},
    {"FABRING_EXPLAIN", "flag", "", "", "", "Say at the start why this transport, this interface and these algorithms.",
     read_flag<&Config::explain>, show_flag<&Config::explain>},
    {"FABRING_STATUS", "flag", "", "", "",
     "Answer `fabring status` and `fabring doctor hang` of the same user, over an abstract unix socket of this host. "
     "No "
     "port is opened.",
     read_flag<&Config::status>, show_flag<&Config::status>},
};

// What comes from outside may hold anything, and is shown on terminals.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

Status unknown_setting(std::string_view name, std::string_view what) {
  std::vector<std::string_view> names;
  for (const Setting& known : rows) names.push_back(known.name);
  return {ErrorCode::invalid_argument,
          fmt::format("{} {}{} (`fabring settings` lists them all)",
                      name.empty() ? "''" : printable(name.substr(0, 200)), what, did_you_mean(name, names))};
}

}  // namespace

Environment process_environment() {
  Environment copy;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) copy.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return copy;
}

std::span<const Setting> settings() { return rows; }

const Setting* find_setting(std::string_view name) {
  for (const Setting& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

std::string default_text(const Setting& row) { return row.unset.empty() ? row.show(Config{}) : std::string(row.unset); }

std::string description(const Setting& row) {
  return fmt::format("{}{}", row.paragraph, row.alike ? " Must be the same on all ranks." : "");
}

bool is_service_variable(std::string_view name, std::string_view value) {
  return name.starts_with("FABRING_") && find_setting(name) == nullptr && tells_of_a_service(name, value);
}

Status apply_setting(const Setting& row, std::string_view text, Config& into) {
  Status status = row.read(row, text, into);
  if (const std::string why = hidden_by_a_service(row.name, text); !status.ok() && !why.empty())
    status = Status(ErrorCode::invalid_argument, why);
  if (status.ok()) return status;
  return {status.code(), printable(fmt::format("{}={}: {}", row.name, text.substr(0, 200), status.message()))};
}

Result<const Setting*> known_setting(std::string_view name) {
  if (const Setting* row = find_setting(name)) return row;
  return unknown_setting(name, "is not a setting of Fabring");
}

Status apply_setting(std::string_view name, std::string_view text, Config& into) {
  if (is_service_variable(name, text)) return {};
  auto row = known_setting(name);
  if (!row) return row.error();
  return text.empty() ? Status() : apply_setting(**row, text, into);
}

Status apply_settings(const Environment& environment, Config& into) {
  constexpr std::string_view prefix = "FABRING_";
  for (auto at = environment.lower_bound(prefix); at != environment.end() && at->first.starts_with(prefix); ++at) {
    if (is_service_variable(at->first, at->second)) continue;
    const Setting* row = find_setting(at->first);
    if (row == nullptr) return unknown_setting(at->first, "is set in the environment but is not a setting of Fabring");
    if (!at->second.empty()) FABRING_TRY(apply_setting(*row, at->second, into));
  }
  return {};
}

std::string settings_markdown() {
  std::string text = "| setting | type | default | what it does |\n|---|---|---|---|\n";
  for (const Setting& row : rows) {
    std::string type(row.type);
    if (!row.choices.empty()) {
      type += ": ";
      type += fmt::format("{}", fmt::join(words_of(row.choices), ", "));
    } else if (row.unit == "s") {
      type += " (s)";
    } else if (!row.unit.empty() && row.unit != "bytes") {
      type += fmt::format(" ({})", row.unit);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, type, default_text(row), description(row));
  }
  return text;
}

}  // namespace fabring
