#include "decision.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "failure.hpp"
#include "group.hpp"

namespace fabring_torch {

std::string Decision::encode() const { return c10::str(token, ' ', number, ' ', members, '\n', job); }

Decision Decision::decode(const std::string& all) {
  Decision made;
  const std::size_t line = std::min(all.find('\n'), all.size());
  if (line < all.size()) made.job = all.substr(line + 1);
  const std::string text = all.substr(0, line);
  const std::size_t space = text.find(' ');
  const char* const end = text.data() + text.size();
  const char* const first = text.data() + (space == std::string::npos ? text.size() : space + 1);
  const auto [last, wrong] = std::from_chars(first, end, made.number);
  if (last != end && *last == ' ') made.members.assign(last + 1, end);
  if (space == 0 || wrong != std::errc() || (last != end && *last != ' '))
    raise_lost("fabring: what the store has about this group cannot be read: another program uses the same keys");
  made.token = text.substr(0, space);
  return made;
}

std::string members_text(const GroupRequest& request) {
  return request.global_ranks.empty() ? "all" : c10::str("[", c10::Join(", ", request.global_ranks), "]");
}

std::string random_token() {
  std::random_device random;
  return c10::str(std::hex, random(), '-', random());
}

}  // namespace fabring_torch
