#pragma once
// NameQuestion: a name that is asked for as a rank asks for its master's: again after an error, since whoever has the
// name may not be up yet (a pod that is being started).

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/fabring/doctor/question.hpp"

namespace fabring::tools {

/// What a name service said.
struct NameFacts {
  std::string name;
  std::vector<std::string> addresses;  ///< numeric
  std::string error;                   ///< empty: it was resolved
  double seconds = 0;
};

NameFacts resolve_name(const std::string& name);

/// Can any name service know it? No: "head:29500", "[::1]", "10.0.0.300".
bool could_be_a_host_name(const std::string& text);

class NameQuestion {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Resolve = std::function<NameFacts(const std::string&)>;

  explicit NameQuestion(std::string name, Resolve resolve = resolve_name);

  /// The first answer, also if it is an error; nothing: none by then.
  std::optional<NameFacts> first(Time until);
  /// Asks until there is an address, or until then: the last answer; nothing: there was none.
  std::optional<NameFacts> last(Time until);
  /// Is the service still silent about what was asked last?
  bool pending() const { return pending_; }

 private:
  Question<NameFacts> ask() const;

  std::string name_;
  Resolve resolve_;
  Question<NameFacts> question_;
  bool pending_ = true;
};

}  // namespace fabring::tools
