#pragma once
// What to say of each way in which one rank of `fabring doctor net` does not reach another: what it is called, what it
// means for a job, what to do.

#include "tools/fabring/doctor/net_facts.hpp"

namespace fabring::tools {

struct Advice {
  Reach reach;
  const char* id;
  const char* what;
  const char* why;
  const char* fix;
};

constexpr auto why_unreachable = "a job needs a connection between any two of its ranks";

/// Null: nothing is wrong, or it was not tried.
const Advice* advice_for(Reach reach);

}  // namespace fabring::tools
