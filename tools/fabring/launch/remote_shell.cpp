#include "tools/fabring/launch/remote_shell.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring::tools {
namespace {

struct Symptom {
  std::string_view words;  ///< of OpenSSH's client
  std::string_view meaning, advice;
};

// {0} is the host as given.
constexpr Symptom symptoms[] = {
    {"Could not resolve hostname", "the name is unknown here", "check the spelling, /etc/hosts and ~/.ssh/config"},
    {"Host key verification failed", "its host key is unknown or has changed", "run `ssh {0} true` once by hand"},
    {"Permission denied", "ssh could not log in",
     "install your key there: ssh-copy-id {0}; `ssh -o BatchMode=yes {0} true` must work"},
    {"Connection refused", "nobody listens for ssh there", "is sshd running, and is it the right port?"},
    {"No route to host", "no route to it", "is the host up, and the network?"},
    {"Network is unreachable", "no route to it", "is the host up, and the network?"},
    {"timed out", "it does not answer", "is the host up, and ssh let through by the firewall?"},
};

std::string advice_text(std::string_view advice, const std::string& host) {
  std::string text(advice);
  for (std::size_t at = text.find("{0}"); at != std::string::npos; at = text.find("{0}", at + host.size()))
    text.replace(at, 3, host);
  return text;
}

// The last line that says something, fit for our own line.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text.substr(text.rfind('\n') + 1));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line.substr(0, 300);
}

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  if (quote != 0) return Status(ErrorCode::invalid_argument, fmt::format("a {} without its end", quote));
  if (words.empty()) return Status(ErrorCode::invalid_argument, "the command is empty");
  return words;
}

std::string shell_quoted(std::string_view word) {
  std::string text = "'";
  for (char c : word) {
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "'";
}

std::vector<std::string> ssh_command(const std::vector<std::string>& ssh, const std::string& host,
                                     const std::string& fabring) {
  std::vector<std::string> words = ssh;
  words.push_back(host);
  // "exec": no shell stays between sshd and the agent.
  words.push_back("exec " + shell_quoted(fabring) + " agent");
  return words;
}

bool is_this_host(const std::string& host, std::string_view own_name, bool (*is_own_address)(const std::string&),
                  std::vector<std::string> (*addresses_of)(const std::string&)) {
  if (host.find('@') != std::string::npos) return false;  // somebody else there
  if (host == "localhost" || host == own_name || is_own_address(host)) return true;
  // One of the two with a domain: train.a and train.b are two hosts, and each may call itself train.
  const std::size_t shorter = std::min(host.size(), own_name.size());
  const std::string_view longer = host.size() > shorter ? std::string_view(host) : own_name;
  if (shorter == 0 || longer.size() == shorter || longer[shorter] != '.' ||
      own_name.substr(0, shorter) != std::string_view(host).substr(0, shorter))
    return false;
  const auto addresses = addresses_of(host);
  return std::any_of(addresses.begin(), addresses.end(), is_own_address);
}

std::string explain_no_answer(const NoAnswer& found) {
  const std::string words = last_line(found.errors.empty() ? found.output : found.errors);
  const std::string said = words.empty() ? std::string() : fmt::format(" ({}: {})", found.program, words);
  if (!found.ending)
    return fmt::format("host {}: no answer yet{}: is the host overloaded, or does its login shell wait for something?",
                       found.host, said);
  const Ending& ending = *found.ending;
  for (const Symptom& symptom : symptoms)
    if (ending.exit_status == 255 && found.errors.find(symptom.words) != std::string::npos)
      return fmt::format("host {}: {}{}: {}", found.host, symptom.meaning, said,
                         advice_text(symptom.advice, found.host));
  if (ending.exit_status == 127 || ending.exit_status == 126)
    return fmt::format(
        "host {}: cannot run '{}' there{}: install the same Fabring at that path, or say where it is with "
        "--remote-fabring PATH",
        found.host, found.fabring, said);
  if (found.errors.find("not a subcommand") != std::string::npos)
    return fmt::format(
        "host {}: '{}' there is too old to be started from here{}: install the same version on all hosts", found.host,
        found.fabring, said);
  return fmt::format("host {}: {} {} before the agent there answered{}; try `{} {} {} --version` by hand", found.host,
                     found.program, ending.to_string(), said, found.program, found.host, found.fabring);
}

}  // namespace fabring::tools
