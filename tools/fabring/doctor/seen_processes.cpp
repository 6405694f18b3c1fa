#include "tools/fabring/doctor/seen_processes.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace fabring::tools {
namespace {

constexpr std::string_view first_namespace = "pid:[4026531836]";  // the same on every Linux: the host's

std::optional<long long> number(const std::string& word) {
  long long value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || rest != word.data() + word.size()) return std::nullopt;
  return value;
}

// "NSpid: 98123 4711": the host's number, then those of the namespaces inside; the last is its own.
std::optional<long long> own_number(const std::string& status) {
  const std::size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(status).substr(at + 7);
  const auto numbers = words(rest.substr(0, rest.find('\n')));
  return numbers.empty() ? std::nullopt : number(numbers.back());
}

}  // namespace

std::optional<bool> SeenProcesses::has(long long pid) {
  if (files_.exists("proc/" + std::to_string(pid))) return true;
  if (!all_) all_ = look();
  if (all_->own_numbers.contains(pid)) return true;
  return all_->complete ? std::optional(false) : std::nullopt;
}

SeenProcesses::All SeenProcesses::look() const {
  All all;
  const std::vector<std::string> names = files_.list("proc");
  for (const std::string& name : names)
    if (const auto pid = number(name))
      all.own_numbers.insert(own_number(files_.text("proc/" + name + "/status").value_or("")).value_or(*pid));
  all.complete = names.size() < HostFiles::most_names && files_.exists("proc/1/status") &&
                 files_.link("proc/self/ns/pid") == first_namespace;
  return all;
}

}  // namespace fabring::tools
