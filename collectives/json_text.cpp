#include "collectives/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace fabring {
namespace {

// Goes over the text without keeping it: what of it is open, and which fields that has.
class Scan final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Scan(std::string_view text) : text_(text) {}
  const std::string& fault() const { return fault_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& object = levels_.back();
    object.last = name;
    if (object.names.insert(name).second) return true;
    object.last.clear();
    const std::string where = path();
    fault_ = fmt::format("the field {} is there twice{}", quoted_field(name), where.empty() ? "" : ", in " + where);
    return false;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& why) override {
    constexpr int too_large = 406;
    fault_ = fmt::format("this is not JSON: {}{}", place(position),
                         why.id == too_large ? ", a number that is too large to be one" : "");
    return false;
  }
  /// "line 3, column 7": of a byte, counted from 1.
  std::string place(std::size_t position) const {
    const std::string_view before = text_.substr(0, std::min(position, text_.size() + 1) - (position > 0 ? 1 : 0));
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t begin = before.rfind('\n') + 1;  // 0 where there is none
    return fmt::format("line {}, column {}", line, before.size() - begin + 1);
  }

 private:
  struct Level {
    bool is_list = false;
    std::size_t count = 0;        // values of a list so far
    std::string last;             // field of an object
    std::set<std::string> names;  // all of them
  };
  bool value() {
    if (!levels_.empty() && levels_.back().is_list) ++levels_.back().count;
    return true;
  }
  bool open(bool is_list) {
    (void)value();
    levels_.emplace_back().is_list = is_list;
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  // "[1].steps[0]": plan 1, its step 0.
  std::string path() const {
    std::string text;
    for (const Level& level : levels_) {
      if (level.is_list)
        text += fmt::format("[{}]", level.count - 1);
      else if (!level.last.empty())
        text += (text.empty() ? "" : ".") + level.last;
    }
    return text;
  }

  const std::string_view text_;
  std::vector<Level> levels_;
  std::string fault_;
};

}  // namespace

bool is_word(std::string_view text) {
  constexpr std::size_t longest = 64;
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  return text.size() <= longest && std::ranges::all_of(text, printable);
}

std::string quoted_field(std::string_view name) {
  return is_word(name) ? fmt::format("'{}'", name) : "(of a name that is no word)";
}

Status check_json(std::string_view text) {
  const auto wrong = [](std::string why) { return Status(ErrorCode::invalid_argument, std::move(why)); };
  Scan scan(text);
  const std::size_t zero = text.find('\0');  // there the parser would stop, and be content
  if (!nlohmann::json::sax_parse(text.substr(0, zero), &scan)) return wrong(scan.fault());
  return zero == text.npos ? Status() : wrong("this is not JSON: " + scan.place(zero + 1));
}

}  // namespace fabring
