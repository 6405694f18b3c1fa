#include "tools/fabring/wrapped_text.hpp"

#include <algorithm>

namespace fabring::tools {

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  bool first_word = true;
  const auto break_line = [&] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
    out.append(indent, ' ');
    column = indent;
    first_word = true;
  };
  while (!text.empty()) {
    if (text.front() == '\n') {
      break_line();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find_first_of(" \n", blanks), text.size());
    const std::size_t word = end - blanks;
    if (!first_word && column + blanks + word > width) {
      break_line();
      out += text.substr(blanks, word);
      column += word;
    } else {
      out += text.substr(0, end);
      column += end;
    }
    first_word = first_word && word == 0;
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace fabring::tools
