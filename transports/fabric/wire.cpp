#include "transports/fabric/wire.hpp"

#include <cstring>
#include <type_traits>

namespace fabring::fabric {
namespace {

constexpr std::uint32_t address_magic = 0x31414246;       // "FBA1"
constexpr std::uint32_t introduction_magic = 0x31494246;  // "FBI1"
constexpr std::uint32_t channel_mask = 0x7fffffff;

template <class T>
void put(char*& at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    *at++ = static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * i));
}

template <class T>
T take(const char*& at) {
  std::make_unsigned_t<T> value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<std::make_unsigned_t<T>>(static_cast<unsigned char>(*at++)) << (8 * i);
  return static_cast<T>(value);
}

constexpr std::size_t address_head = 4 + 4 + 4 + 1;
constexpr std::size_t introduction_head = 4 + 8 + 4 + 4 + 1;
static_assert(introduction_head + max_introduced_name <= introduction_bytes);

std::uint64_t channel(std::uint64_t job_key, std::uint32_t rank) {
  const auto key = static_cast<std::uint32_t>(job_key ^ (job_key >> 32));
  return static_cast<std::uint64_t>((rank ^ key) & channel_mask) << 32;
}

}  // namespace

std::string encode(const AddressBlob& blob) {
  std::string bytes(address_head, '\0');
  char* at = bytes.data();
  put(at, address_magic);
  put(at, blob.protocol);
  put(at, blob.protocol_version);
  put(at, static_cast<std::uint8_t>(blob.name.size()));
  return bytes + blob.name;
}

std::optional<AddressBlob> decode_address(std::string_view bytes) {
  if (bytes.size() < address_head) return std::nullopt;
  const char* at = bytes.data();
  if (take<std::uint32_t>(at) != address_magic) return std::nullopt;
  AddressBlob blob;
  blob.protocol = take<std::uint32_t>(at);
  blob.protocol_version = take<std::uint32_t>(at);
  const std::size_t length = take<std::uint8_t>(at);
  if (length == 0 || length > max_name_bytes || bytes.size() != address_head + length) return std::nullopt;
  blob.name.assign(at, length);
  return blob;
}

std::uint64_t tag_of(std::uint64_t job_key, Rank sender, Slot slot) {
  return channel(job_key, static_cast<std::uint32_t>(sender)) | slot;
}

Rank sender_of(std::uint64_t job_key, std::uint64_t tag) {
  return static_cast<Rank>(((tag ^ channel(job_key, 0)) >> 32) & channel_mask);
}

std::uint64_t tag_of(std::uint64_t job_key, Greeting greeting) {
  return channel(job_key, channel_mask) | static_cast<std::uint32_t>(greeting);
}

IntroductionBytes encode(const Introduction& introduction) {
  char bytes[introduction_bytes] = {};
  char* at = bytes;
  put(at, introduction_magic);
  put(at, introduction.job_key);
  put(at, introduction.from);
  put(at, introduction.to);
  put(at, static_cast<std::uint8_t>(introduction.name.size()));
  std::memcpy(at, introduction.name.data(), introduction.name.size());
  IntroductionBytes out;
  std::memcpy(out.data(), bytes, out.size());
  return out;
}

std::optional<Introduction> decode_introduction(std::span<const std::byte> bytes) {
  if (bytes.size() != introduction_bytes) return std::nullopt;
  const char* at = reinterpret_cast<const char*>(bytes.data());
  if (take<std::uint32_t>(at) != introduction_magic) return std::nullopt;
  Introduction introduction;
  introduction.job_key = take<std::uint64_t>(at);
  introduction.from = take<Rank>(at);
  introduction.to = take<Rank>(at);
  const std::size_t length = take<std::uint8_t>(at);
  if (length == 0 || length > max_introduced_name) return std::nullopt;
  introduction.name.assign(at, length);
  return introduction;
}

}  // namespace fabring::fabric
