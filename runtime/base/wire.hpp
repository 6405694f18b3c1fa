#pragma once
// WireWriter and WireReader: integers and short texts to and from bytes, little-endian on every host. The reader never
// looks past its input and never allocates more than the caller allows; after the first bad field everything reads as
// zero or empty and ok() stays false, so a decoder checks once, at the end.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fabring {

class WireWriter {
 public:
  template <std::integral T>
  WireWriter& number(T value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) bytes_.push_back(static_cast<char>(bits & 0xff));
    return *this;
  }
  WireWriter& raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  /// Length and bytes, cut to `most` so that what we send always passes the reader's own limit.
  WireWriter& text(std::string_view text, std::size_t most) {
    text = text.substr(0, most);
    number(static_cast<std::uint32_t>(text.size()));
    return raw(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral T>
  T number() {
    if (!ok_ || bytes_.size() < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(sizeof(T));
    return static_cast<T>(bits);
  }
  std::string_view raw(std::size_t bytes) {
    if (!ok_ || bytes_.size() < bytes) {
      ok_ = false;
      return {};
    }
    const std::string_view part = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return part;
  }
  std::string_view text(std::size_t most) {
    const auto length = number<std::uint32_t>();
    if (length > most) ok_ = false;
    return ok_ ? raw(length) : std::string_view{};
  }
  bool ok() const { return ok_; }
  /// Everything was there and nothing is left over.
  bool complete() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace fabring
