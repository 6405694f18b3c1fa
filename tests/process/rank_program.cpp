// One rank of a process test: meets the others through the environment, runs its commands (commands.hpp), says what
// happened in lines of JSON (events.hpp). Exit code: 0 fine, 1 wrong result, 2 usage, 3 an error of Fabring.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "commands.hpp"
#include "cycles.hpp"
#include "events.hpp"
#include "forks.hpp"

using namespace rank_program;

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a harness that is killed leaves nobody behind
  Event("begin").number("pid", ::getpid());
  if (const Words first(argc > 1 ? argv[1] : ""); first.verb() == "cycles")  // with engines of their own
    return static_cast<int>(run_cycles(first));
  if (argc > 1 && Words(argv[1]).verb() == "forks") return static_cast<int>(run_forks());
  auto engine = fabring::Engine::from_environment();
  if (!engine) {
    Event("error").text("where", "start").error(engine.error());
    return static_cast<int>(Exit::failed);
  }
  const fabring::Communicator world = (*engine)->world();
  Event("ready")
      .number("rank", world.rank())
      .number("size", world.size())
      .numbers("nodes", world.nodes())
      .texts("report", (*engine)->report());
  Exit exit = Exit::fine;
  {
    Commands commands(**engine);
    for (int i = 1; i < argc && exit == Exit::fine; ++i) exit = commands.run(argv[i]);
  }
  const fabring::Traffic traffic = (*engine)->traffic();
  Event("end")
      .number("exit", static_cast<int>(exit))
      .number("payload_sent", static_cast<std::int64_t>(traffic.payload_bytes_sent))
      .number("wire_sent", static_cast<std::int64_t>(traffic.wire_bytes_sent));
  return static_cast<int>(exit);
}
