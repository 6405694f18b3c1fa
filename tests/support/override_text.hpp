#pragma once
// Overrides as parse_overrides() reads them: "allreduce:65536-4194304:circulant".

#include <string>
#include <vector>

#include "collectives/choice/overrides.hpp"

namespace fabring::fixture {

inline std::string to_text(const std::vector<Override>& overrides) {
  std::string text;
  for (const Override& rule : overrides) {
    if (!text.empty()) text += ",";
    if (rule.collective) text += std::string(name(*rule.collective)) + ":";
    const Override everything;
    if (rule.least != everything.least || rule.most != everything.most) {
      text += std::to_string(rule.least);
      if (rule.most != rule.least) text += "-";
      if (rule.most != rule.least && rule.most != everything.most) text += std::to_string(rule.most);
      text += ":";
    }
    text += rule.any_direct ? "direct" : rule.algorithm ? std::string(name(*rule.algorithm)) : "auto";
  }
  return text;
}

}  // namespace fabring::fixture
