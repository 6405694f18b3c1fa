#pragma once
// Pieces: a fuzz input read as numbers and strings. Where it ends everything is 0 or empty; one made by pieces() is
// read to the same.

#include <cstdint>
#include <string>
#include <string_view>

namespace fabring::fuzz {

class Pieces {
 public:
  explicit Pieces(std::string_view input) : left_(input) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  std::uint16_t number() {
    const std::uint8_t low = byte();
    return static_cast<std::uint16_t>(low | byte() << 8);
  }
  /// Two bytes of length, and so many bytes, or those that are there.
  std::string_view text() {
    const std::size_t length = number();
    const std::string_view piece = left_.substr(0, length);
    left_.remove_prefix(piece.size());
    return piece;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

inline std::string piece(std::string_view text) {
  return std::string{static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)} + std::string(text);
}

}  // namespace fabring::fuzz
