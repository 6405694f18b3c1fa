#pragma once
// The environment rendezvous with its inner knobs; bootstrap.hpp has the function everybody else calls. How it works:
// rank 0 listens at the master address (meeting_server.hpp), every other rank finds it (master_search.hpp), joins and
// exchanges a few small values through it (meeting_client.hpp). Each rank and rank 0 exchange a handful of messages;
// the full table of addresses is never sent to anybody.

#include <chrono>
#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace fabring {

struct RendezvousOptions {
  std::chrono::milliseconds note_interval{5000};  ///< between warnings about missing ranks
  std::chrono::milliseconds verdict_delay{
      300};  ///< all but the refused are here: how long the right one may still come
  std::chrono::milliseconds answer_limit{2000};  ///< for a rank of which another process comes, to say that it is there
  std::chrono::milliseconds stale_name_limit{30'000};  ///< rank 0 waits for its name, if that is another host's address
  std::chrono::milliseconds farewell_limit{1000};      ///< rank 0 stays to tell the others why the rendezvous failed
  std::chrono::milliseconds closing_limit{1000};       ///< rank 0 stays until the others have said that they are done
  std::string local_address;                           ///< overrides Bootstrap::local_address(); numeric
  std::string fingerprint;                             ///< overrides the host fingerprint
};

Result<std::unique_ptr<Bootstrap>> rendezvous(const Config& config, const std::string& secret, const Log& log,
                                              const RendezvousOptions& options);

}  // namespace fabring
