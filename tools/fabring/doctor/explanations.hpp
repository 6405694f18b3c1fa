#pragma once
// What errors of ours, of libfabric and EFA, of NCCL, PyTorch and the system mean, what causes them, and what to do: a
// table, and how words and logs are looked up in it. `doctor explain` prints it.

#include <cstddef>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fabring::tools {

struct Explanation {
  std::string_view source;  ///< "Fabring", "EFA", "libfabric", "NCCL", "PyTorch", "system"
  std::string_view codes;   ///< names and numbers that mean it, blank-separated: "4126 UNESTABLISHED_RECV_UNRESP".
                           ///< "net.*": findings of that family
  std::string_view
      phrases;  ///< what a log says, '|'-separated, small letters: any of them. '+' joins what must all be there. '^':
                ///< a code of ours, which stands in front, in small letters: others' lines have such words too
  std::string_view meaning;
  std::string_view causes;  ///< one to a line, the likeliest first
  std::string_view remedy;  ///< one step to a line
  bool victim = false;      ///< usually the consequence of an error elsewhere: look for that one first
};

std::span<const Explanation> explanations();

/// Entries that have this code: "4126", "-61", "FI_ENODATA", "peer_lost", "ncclRemoteError", "net.mtu"; case does not
/// count.
std::vector<const Explanation*> explain_code(std::string_view code);

/// Entries that have the name of this error number of the system: "24" and "-24" those of EMFILE, as "FI_EMFILE".
std::vector<const Explanation*> explain_errno(std::string_view code);

/// Entries that a line of text fits.
std::vector<const Explanation*> explain_text(std::string_view line);

struct LogHit {
  const Explanation* explanation = nullptr;
  std::size_t line = 0;  ///< of the first one, from 1
  std::size_t times = 0;
  std::string text;  ///< that line, at most 200 characters, without control characters
};

/// Causes first, then what is usually a consequence; each by its first line. Reads to the end, as what failed is said
/// there; of memory it takes one piece of a line. Where it could not read on, log.bad().
std::vector<LogHit> explain_log(std::istream& log);

/// The known code nearest to a mistyped one: "; did you mean 'peer_lost'?", or nothing.
std::string nearest_code(std::string_view code);

/// "errno 111, ECONNREFUSED: Connection refused"; empty when it is no errno of this system.
std::string errno_text(std::string_view code);

}  // namespace fabring::tools
