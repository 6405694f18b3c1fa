#include "runtime/base/hello.hpp"

#include <fmt/format.h>

#include <cstring>

#include "runtime/base/wire.hpp"

namespace fabring {
namespace {

// The first byte is no ASCII and no TLS record type, so HTTP, TLS, SSH and text probes differ in byte 0.
constexpr std::string_view magic(
    "\xfb"
    "FABRING",
    8);
constexpr std::uint32_t byte_order_mark = 0x01020304;
constexpr std::uint8_t flag_secret = 1;
constexpr std::uint8_t flag_initiator = 2;
constexpr std::uint8_t flag_withheld = 4;

std::string_view purpose_name(std::uint8_t purpose) {
  switch (static_cast<Purpose>(purpose)) {
    case Purpose::rendezvous:
      return "rendezvous";
    case Purpose::control:
      return "control";
    case Purpose::data:
      return "data";
  }
  return "unknown";
}

std::string_view word(Refusal why) {
  switch (why) {
    case Refusal::none:
      return "no reason";
    case Refusal::version:
      return "another wire version";
    case Refusal::byte_order:
      return "another byte order";
    case Refusal::purpose:
      return "another purpose of the connection";
    case Refusal::job:
      return "another job";
    case Refusal::incarnation:
      return "another run of the job";
    case Refusal::world_size:
      return "another world size";
    case Refusal::rank:
      return "a rank out of range";
    case Refusal::secret:
      return "the secret";
  }
  return "an unknown reason";
}

std::string_view advice(Refusal why) {
  switch (why) {
    case Refusal::version:
      return "install the same version of Fabring on all hosts";
    case Refusal::byte_order:
      return "all hosts of a job must have the same byte order";
    case Refusal::purpose:
      return "an address was mixed up";
    case Refusal::job:
      return "set the same FABRING_JOB_ID on all ranks, or give each job its own FABRING_MASTER_PORT";
    case Refusal::incarnation:
      return "is a process of an earlier run still there?";
    case Refusal::world_size:
      return "set the same FABRING_WORLD_SIZE on all ranks; or, if they are of two jobs, give each job its own "
             "FABRING_MASTER_PORT or FABRING_JOB_ID";
    case Refusal::rank:
      return "check FABRING_RANK there";
    case Refusal::secret:
      return "FABRING_SECRET_FILE must hold the same bytes on all ranks";
    case Refusal::none:
      break;
  }
  return "that is a bug; please report it";
}

// What the side that refuses says; `who` is the other side.
std::string explanation(Refusal why, const HandshakeOptions& options, const Hello* peer, std::uint16_t version,
                        const std::string& who, const std::string& self) {
  switch (why) {
    case Refusal::version:
      return fmt::format("{} speaks version {} of Fabring's protocol, {} speaks version {}", who, version, self,
                         wire_version);
    case Refusal::byte_order:
      return fmt::format("{} stores numbers in another byte order than {}", who, self);
    case Refusal::purpose:
      return fmt::format("{} speaks for a {} connection where {} expects a {} connection", who,
                         purpose_name(peer->purpose), self, purpose_name(static_cast<std::uint8_t>(options.purpose)));
    case Refusal::job:
      return fmt::format("{} belongs to another job (its FABRING_JOB_ID differs from '{}' of {})", who, options.job_id,
                         self);
    case Refusal::incarnation:
      return fmt::format("{} belongs to another run of job '{}' than {}", who, options.job_id, self);
    case Refusal::world_size:
      return fmt::format("{} was told that there are {} ranks, {} that there are {}", who, peer->world_size, self,
                         options.world_size);
    case Refusal::rank:
      return fmt::format("{} is out of range: with a world size of {} ranks go from 0 to {}", who, options.world_size,
                         options.world_size - 1);
    case Refusal::secret:
      if (peer->has_secret != options.secret.empty()) return fmt::format("{} has another secret than {}", who, self);
      return fmt::format("{} has {} secret, {} has {}", who, peer->has_secret ? "a" : "no", self,
                         peer->has_secret ? "none" : "one");
    case Refusal::none:
      break;
  }
  return fmt::format("{} was refused without a reason", who);
}

}  // namespace

Result<Hello> make_hello(const HandshakeOptions& options) {
  Hello hello;
  hello.purpose = static_cast<std::uint8_t>(options.purpose);
  hello.initiator = options.initiator;
  hello.has_secret = !options.secret.empty();
  hello.job_nonce = options.job_nonce;
  hello.rank = options.self;
  hello.world_size = static_cast<std::uint32_t>(options.world_size);
  hello.lane = options.lane;
  if (!random_bytes(hello.challenge.data(), hello.challenge.size()) || !sha256(options.job_id, hello.job))
    return Status(ErrorCode::internal, "no random numbers or no SHA-256 for the handshake: check the OpenSSL set-up");
  return hello;
}

std::string encode(const Hello& hello) {
  std::uint32_t mark = byte_order_mark;
  WireWriter out;
  out.raw(magic).number(hello.version).number(hello.purpose);
  out.number(static_cast<std::uint8_t>((hello.has_secret ? flag_secret : 0) | (hello.initiator ? flag_initiator : 0) |
                                       (hello.withheld ? flag_withheld : 0)));
  out.raw({reinterpret_cast<const char*>(&mark), sizeof mark});
  out.number(hello.job_nonce).number(hello.rank).number(hello.world_size).number(hello.lane).number(std::uint32_t{0});
  out.raw({reinterpret_cast<const char*>(hello.challenge.data()), hello.challenge.size()});
  out.raw({reinterpret_cast<const char*>(hello.job.data()), hello.job.size()});
  return out.take();
}

Hello without_job(Hello hello) {
  hello.withheld = true;
  hello.job_nonce = 0;
  hello.job = {};
  return hello;
}

bool could_be_hello(std::string_view begin) {
  const std::size_t compared = std::min(begin.size(), magic.size());
  return begin.substr(0, compared) == magic.substr(0, compared);
}

std::uint16_t version_of(std::string_view prefix) {
  WireReader in(prefix);
  in.raw(magic.size());
  return in.number<std::uint16_t>();
}

std::optional<Hello> decode_hello(std::string_view bytes) {
  WireReader in(bytes);
  Hello hello;
  const bool ours = in.raw(magic.size()) == magic;
  hello.version = in.number<std::uint16_t>();
  hello.purpose = in.number<std::uint8_t>();
  const auto flags = in.number<std::uint8_t>();
  hello.has_secret = (flags & flag_secret) != 0;
  hello.initiator = (flags & flag_initiator) != 0;
  hello.withheld = (flags & flag_withheld) != 0;
  const std::string_view mark = in.raw(sizeof byte_order_mark);
  hello.job_nonce = in.number<std::uint64_t>();
  hello.rank = in.number<Rank>();
  hello.world_size = in.number<std::uint32_t>();
  hello.lane = in.number<std::uint32_t>();
  const auto reserved = in.number<std::uint32_t>();
  const std::string_view challenge = in.raw(hello.challenge.size());
  const std::string_view job = in.raw(hello.job.size());
  if (!in.complete() || !ours || hello.version != wire_version || reserved != 0) return std::nullopt;
  if ((flags & ~(flag_secret | flag_initiator | flag_withheld)) != 0) return std::nullopt;
  if (hello.withheld && hello.initiator) return std::nullopt;  // who calls says first who it is
  std::uint32_t read_mark = 0;
  std::memcpy(&read_mark, mark.data(), sizeof read_mark);
  hello.same_byte_order = read_mark == byte_order_mark;
  if (!hello.same_byte_order && read_mark != __builtin_bswap32(byte_order_mark)) return std::nullopt;
  std::memcpy(hello.challenge.data(), challenge.data(), challenge.size());
  std::memcpy(hello.job.data(), job.data(), job.size());
  if (hello.withheld && (hello.job_nonce != 0 || hello.job != Digest{})) return std::nullopt;
  return hello;
}

Refusal check_hello(const HandshakeOptions& options, const Hello& peer) {
  Digest job;
  if (!peer.same_byte_order) return Refusal::byte_order;
  // Behind a door of another job is another job, whatever that door is for.
  if (!peer.withheld && (!sha256(options.job_id, job) || !equal_in_constant_time(job, peer.job))) return Refusal::job;
  if (peer.purpose != static_cast<std::uint8_t>(options.purpose)) return Refusal::purpose;
  if (!peer.withheld && peer.job_nonce != options.job_nonce) return Refusal::incarnation;
  if (peer.world_size != static_cast<std::uint32_t>(options.world_size)) return Refusal::world_size;
  if (peer.rank < 0 || peer.rank >= options.world_size) return Refusal::rank;
  if (peer.has_secret != !options.secret.empty()) return Refusal::secret;
  return Refusal::none;
}

Status explain_refusal(Refusal why, const HandshakeOptions& options, const Hello* peer, std::uint16_t version,
                       const net::SocketAddress& address, bool by_peer) {
  const std::string who = peer != nullptr ? fmt::format("rank {} at {}", peer->rank, address.to_string())
                                          : "the peer at " + address.to_string();
  const std::string self = fmt::format("rank {}", options.self);
  // The other side is what the error is about, whichever of the two is wrong: it is what the reader cannot see.
  ErrorContext context;
  if (peer != nullptr) context.rank = peer->rank;
  context.host = address.host;
  const bool wrong_call = why == Refusal::world_size || why == Refusal::rank;
  const ErrorCode code = why == Refusal::none ? ErrorCode::internal
                         : wrong_call         ? ErrorCode::invalid_argument
                                              : ErrorCode::mismatch;
  const std::string what = by_peer ? fmt::format("{} turned {} away because of {}", who, self, word(why))
                                   : explanation(why, options, peer, version, who, self);
  const bool one_secret = why == Refusal::secret && peer != nullptr && peer->has_secret == options.secret.empty();
  const std::string_view what_to_do = one_secret ? "set FABRING_SECRET_FILE on all ranks or on none"
                                      : by_peer && why == Refusal::rank ? "check FABRING_RANK here"
                                                                        : advice(why);
  return Status(code, fmt::format("{}: {}", what, what_to_do), std::move(context));
}

bool prove(const std::string& secret, bool initiator, std::string_view initiator_hello, std::string_view acceptor_hello,
           Digest& proof) {
  std::string bytes(initiator ? "fabring initiator" : "fabring acceptor");
  bytes.push_back('\0');
  bytes.append(initiator_hello).append(acceptor_hello);
  return hmac_sha256(secret, bytes, proof);
}

}  // namespace fabring
