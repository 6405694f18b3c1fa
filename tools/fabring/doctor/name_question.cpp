#include "tools/fabring/doctor/name_question.hpp"

#include <netdb.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>

namespace fabring::tools {

NameFacts resolve_name(const std::string& name) {
  using Clock = std::chrono::steady_clock;
  NameFacts facts;
  facts.name = name;
  const auto begin = Clock::now();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(name.c_str(), nullptr, &hints, &list);
  facts.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (rc != 0) {
    facts.error = ::gai_strerror(rc);
    return facts;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST] = "";
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      facts.addresses.emplace_back(text);
  }
  return facts;
}

bool could_be_a_host_name(const std::string& text) {
  constexpr std::size_t longest_name = 253, longest_label = 63;
  constexpr std::string_view never = " \t\r\n:/[]@,;'\"";
  if (text.find_first_of(never) != std::string::npos) return false;
  if (text.find_first_not_of("0123456789.") == std::string::npos) return false;  // meant as an address
  std::string_view rest = text;
  if (rest.ends_with('.')) rest.remove_suffix(1);
  if (rest.size() > longest_name) return false;
  while (true) {
    const std::size_t label = std::min(rest.find('.'), rest.size());
    if (label == 0 || label > longest_label) return false;
    if (label == rest.size()) return true;
    rest.remove_prefix(label + 1);
  }
}

NameQuestion::NameQuestion(std::string name, Resolve resolve)
    : name_(std::move(name)), resolve_(std::move(resolve)), question_(ask()) {}

Question<NameFacts> NameQuestion::ask() const {
  return Question<NameFacts>([name = name_, resolve = resolve_] { return resolve(name); });
}

std::optional<NameFacts> NameQuestion::first(Time until) {
  auto answer = question_.wait(until);
  if (answer) pending_ = false;
  return answer;
}

std::optional<NameFacts> NameQuestion::last(Time until) {
  // As often as a rank asks: a name service has a whole job's hosts to answer.
  std::chrono::milliseconds pause(50);
  constexpr std::chrono::milliseconds longest_pause(1000);
  auto answer = first(until);
  while (answer && !answer->error.empty() && could_be_a_host_name(name_) &&
         std::chrono::steady_clock::now() + pause < until) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
    question_ = ask();
    pending_ = true;
    if (auto newer = first(until)) answer = std::move(newer);
  }
  return answer;
}

}  // namespace fabring::tools
