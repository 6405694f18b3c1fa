#include "tools/fabring/doctor/explanations.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "runtime/base/nearest_name.hpp"
#include "tools/fabring/doctor/host_files.hpp"

namespace fabring::tools {
namespace {

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return out;
}

// Parts between separators; an empty text has none.
template <class Visit>
bool any_part(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (visit(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// Length of a date or a time of day: "12:34:56.789", "2026-11-27t12:34:56.789z". 0: it is none.
std::size_t length_of_time(std::string_view small) {
  const std::string_view word = small.substr(0, small.find_first_of(" \t"));
  const bool starts_so = !word.empty() && word[0] >= '0' && word[0] <= '9';
  const bool divided = word.find_first_of(":-/") != std::string_view::npos;
  return starts_so && divided && word.find_first_not_of("0123456789-:/.,tz+") == std::string_view::npos ? word.size()
                                                                                                        : 0;
}

// Behind what the launcher, our programs and readers of logs put before an error: "12:34:56.789 ", "[3] ",
// "fabring run: ", "Error: ".
std::size_t after_front(std::string_view line, std::string_view small) {
  constexpr std::size_t longest_tag = 40;
  std::size_t at = 0;
  int times_left = 4;  // a date and a time of the launcher's, and of who collects its lines
  for (;;) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    const std::string_view rest = small.substr(at);
    std::size_t behind = std::string_view::npos;
    if (rest.starts_with('[') && rest.find(']') < longest_tag)
      behind = rest.find(']') + (rest.substr(rest.find(']')).starts_with("]:") ? 2 : 1);
    else if (rest.starts_with("fabring") && rest.find(": ") != std::string_view::npos)
      behind = rest.find(": ") + 2;
    else if (rest.starts_with("error: "))
      behind = std::string_view("error: ").size();
    else if (const std::size_t time = length_of_time(rest); time > 0 && times_left-- > 0)
      behind = time;
    if (behind == std::string_view::npos) return at;
    at += behind;
  }
}

bool is_of_a_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '_' || letter == '-' || letter == '.';
}

// A code of ours is in small letters, and a program that prints it behind words of its own prints our text with it:
// behind a blank, a colon, or the quote of a log in JSON.
bool has_code(std::string_view line, std::string_view small, std::string_view code) {
  if (line.find(code) == std::string_view::npos) return false;
  const auto contains = [&](std::string_view part) { return small.find(part) != std::string_view::npos; };
  const bool ours = contains("fabring") || contains(" (host ") || (contains(" #") && contains(" on '"));
  const std::size_t front = after_front(line, small);
  for (std::size_t at = line.find(code); at != std::string_view::npos; at = line.find(code, at + 1)) {
    if (at == front || (ours && (at == 0 || !is_of_a_word(line[at - 1])))) return true;
  }
  return false;
}

bool fits(const Explanation& entry, std::string_view line, std::string_view small) {
  return any_part(entry.phrases, '|', [&](std::string_view phrase) {
    if (phrase.starts_with('^')) return has_code(line, small, phrase.substr(1));
    return !any_part(phrase, '+', [&](std::string_view part) { return small.find(part) == std::string_view::npos; });
  });
}

std::string printable(std::string_view line) {
  std::string out(line.substr(0, 200));
  for (char& letter : out)
    if (static_cast<unsigned char>(letter) < 32 || letter == 127) letter = ' ';
  return out;
}

// "net.mtu" is of "net.*".
bool is_of_family(std::string_view id, std::string_view family) {
  if (!family.ends_with(".*") || !id.starts_with(family.substr(0, family.size() - 1))) return false;
  id.remove_prefix(family.size() - 1);
  return !id.empty() && id.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
}

// Of "24", "-24", "EMFILE" or "FI_EMFILE"; 0: it is none of this system.
int errno_number(std::string_view code) {
  constexpr int last = 133;
  if (code.starts_with('-')) code.remove_prefix(1);
  int number = 0;
  const auto [rest, error] = std::from_chars(code.data(), code.data() + code.size(), number);
  if (error == std::errc{} && rest == code.data() + code.size())
    return number > 0 && number <= last && ::strerrorname_np(number) != nullptr ? number : 0;
  if (code.starts_with("FI_")) code.remove_prefix(3);
  for (number = 1; number <= last; ++number)
    if (const char* name = ::strerrorname_np(number); name != nullptr && code == name) return number;
  return 0;
}

}  // namespace

std::vector<const Explanation*> explain_code(std::string_view code) {
  std::vector<const Explanation*> found;
  const std::string wanted = small_letters(code);
  for (const Explanation& entry : explanations())
    for (const std::string& known : words(entry.codes))
      if (small_letters(known) == wanted || is_of_family(wanted, known)) {
        found.push_back(&entry);
        break;
      }
  return found;
}

std::vector<const Explanation*> explain_text(std::string_view line) {
  std::vector<const Explanation*> found;
  const std::string text = small_letters(line);
  for (const Explanation& entry : explanations())
    if (fits(entry, line, text)) found.push_back(&entry);
  return found;
}

std::vector<LogHit> explain_log(std::istream& log) {
  constexpr std::size_t longest_piece = 64u << 10;
  std::map<const Explanation*, LogHit> hits;
  std::string piece;
  std::size_t number = 1;
  // Progress bars write over themselves: a line may be long, and what failed stands at its end.
  const auto look_at = [&] {
    for (const Explanation* entry : explain_text(piece)) {
      LogHit& hit = hits[entry];
      if (hit.times++ == 0) hit = {entry, number, 1, printable(piece)};
    }
    piece.clear();
  };
  std::vector<char> block(longest_piece);
  // What comes before a failure of the disk counts, so no more is asked for than is there.
  while (log.peek() != std::istream::traits_type::eof()) {
    auto count = log.readsome(block.data(), static_cast<std::streamsize>(block.size()));
    if (count <= 0) {
      block[0] = static_cast<char>(log.get());
      count = 1;
    }
    std::string_view rest(block.data(), static_cast<std::size_t>(count));
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of("\n\r"), rest.size());
      const std::size_t taken = std::min(end, longest_piece - piece.size());
      piece += rest.substr(0, taken);
      rest.remove_prefix(taken);
      if (taken == end && rest.empty()) break;
      look_at();
      if (taken < end) continue;
      if (rest.front() == '\n') ++number;
      rest.remove_prefix(1);
    }
  }
  if (!piece.empty()) look_at();
  std::vector<LogHit> found;
  found.reserve(hits.size());
  for (auto& [entry, hit] : hits) found.push_back(std::move(hit));
  std::sort(found.begin(), found.end(), [](const LogHit& a, const LogHit& b) {
    return std::pair(a.explanation->victim, a.line) < std::pair(b.explanation->victim, b.line);
  });
  return found;
}

std::string nearest_code(std::string_view code) {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> all;
    for (const Explanation& entry : explanations())
      for (std::string& word : words(entry.codes))
        if (word.size() > 3 && word[0] != '-' && word.back() != '*') all.push_back(std::move(word));
    return all;
  }();
  const std::vector<std::string_view> views(known.begin(), known.end());
  return did_you_mean(code, views);
}

std::vector<const Explanation*> explain_errno(std::string_view code) {
  const int number = errno_number(code);
  if (number == 0) return {};
  return explain_code(::strerrorname_np(number));
}

std::string errno_text(std::string_view code) {
  const int number = errno_number(code);
  if (number == 0) return {};
  return "errno " + std::to_string(number) + ", " + ::strerrorname_np(number) + ": " + ::strerrordesc_np(number);
}

}  // namespace fabring::tools
