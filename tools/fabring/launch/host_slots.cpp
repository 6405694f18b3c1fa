#include "tools/fabring/launch/host_slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {
namespace {

constexpr int most_slots = 4096;
constexpr std::size_t longest_name = 320;

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

Result<int> slots_of(std::string_view text) {
  auto slots = parse_integer(text, 1, most_slots);
  if (!slots) return slots.error().with_prefix("slots: ");
  return static_cast<int>(*slots);
}

// The name goes to ssh's command line, where a leading '-' would be an option, and into messages.
Status check_name(std::string_view name) {
  if (name.empty()) return wrong("the name is empty");
  if (name.size() > longest_name) return wrong("the name is too long");
  if (name.front() == '-' || name.back() == '@' || name.find("@-") != std::string_view::npos)
    return wrong("that is no host name");
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && std::string_view(".-_@:%").find(c) == std::string_view::npos)
      return wrong(fmt::format("'{}' cannot be part of a host name", static_cast<unsigned char>(c) < 0x20 ? '?' : c));
  }
  return {};
}

// "host", "host:4", "[fd00::1]:4".
Result<HostSlots> parse_host(std::string_view item, bool* counted = nullptr) {
  HostSlots host;
  std::string_view rest;
  const std::size_t open = item.find('[');
  if (open != std::string_view::npos) {  // user@[fd00::1]:4
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos) return wrong(fmt::format("'{}': a [ without its ]", item));
    host.name = fmt::format("{}{}", item.substr(0, open), item.substr(open + 1, close - open - 1));
    rest = item.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return wrong(fmt::format("'{}': only :SLOTS may follow a ]", item));
  } else {
    if (std::count(item.begin(), item.end(), ':') > 1)
      return wrong(fmt::format("'{0}': an IPv6 address stands in brackets, [{0}] or [{0}]:4", item));
    const std::size_t colon = std::min(item.find(':'), item.size());
    host.name = item.substr(0, colon);
    rest = item.substr(colon);
  }
  if (Status status = check_name(host.name); !status) return status.with_prefix(fmt::format("'{}': ", item));
  if (!rest.empty()) {
    auto slots = slots_of(rest.substr(1));
    if (!slots) return slots.error().with_prefix(fmt::format("'{}': ", item));
    host.slots = *slots;
  }
  if (counted != nullptr) *counted = !rest.empty();
  return host;
}

void merge(HostSlots host, std::vector<HostSlots>& into) {
  const auto known = std::find_if(into.begin(), into.end(), [&](const HostSlots& h) { return h.name == host.name; });
  if (known == into.end())
    into.push_back(std::move(host));
  else
    known->slots = std::min(known->slots + host.slots, most_slots);
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t from = line.find_first_not_of(blanks); from != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, from), line.size());
    words.push_back(line.substr(from, end - from));
    from = line.find_first_not_of(blanks, end);
  }
  return words;
}

Result<HostSlots> parse_line(const std::vector<std::string_view>& words) {
  bool counted = false;
  auto host = parse_host(words.front(), &counted);
  if (!host) return host;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size());
    const std::string_view key = words[i].substr(0, equals);
    if (key == "max_slots" || key == "max-slots") continue;  // a limit for oversubscription, which we do not do
    if (key != "slots" || equals == words[i].size())
      return wrong(fmt::format("'{}' is not understood; a line is HOST, HOST:4 or HOST slots=4", words[i]));
    if (counted) return wrong(fmt::format("'{}': the slots are given twice", words.front()));
    auto slots = slots_of(words[i].substr(equals + 1));
    if (!slots) return slots.error().with_prefix(fmt::format("'{}': ", words[i]));
    host->slots = *slots;
    counted = true;
  }
  return host;
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text) {
  auto items = parse_list(text);
  if (!items) return items.error();
  std::vector<HostSlots> hosts;
  for (const std::string& item : *items) {
    auto host = parse_host(item);
    if (!host) return host.error();
    merge(std::move(*host), hosts);
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, std::string_view file) {
  std::vector<HostSlots> hosts;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto words = words_of(line.substr(0, std::min(line.find('#'), line.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    auto host = parse_line(words);
    if (!host) return host.error().with_prefix(fmt::format("{}:{}: ", file, number));
    merge(std::move(*host), hosts);
  }
  if (hosts.empty()) return wrong(fmt::format("{}: it names no host", file));
  return hosts;
}

Result<std::vector<HostShare>> place_ranks(const std::vector<HostSlots>& hosts, int ranks) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  if (ranks == 0) ranks = slots;
  if (ranks > slots) {
    const int each = (ranks + static_cast<int>(hosts.size()) - 1) / static_cast<int>(hosts.size());
    std::vector<std::string> have;
    for (const HostSlots& host : hosts) {
      if (have.size() == 8) {
        have.emplace_back("...");
        break;
      }
      have.push_back(fmt::format("{}:{}", host.name, host.slots));
    }
    return wrong(
        fmt::format("{} ranks, but only {} slot{} ({}): use -n {}, add hosts, or give each of them {} slots "
                    "(HOST:{} in --hosts, HOST slots={} in a hostfile)",
                    ranks, slots, slots == 1 ? "" : "s", fmt::join(have, ","), slots, each, each, each));
  }
  std::vector<HostShare> shares;
  for (int first = 0, i = 0; first < ranks; ++i) {
    const HostSlots& host = hosts[static_cast<std::size_t>(i)];
    shares.push_back({host.name, first, std::min(host.slots, ranks - first)});
    first += shares.back().count;
  }
  return shares;
}

}  // namespace fabring::tools
