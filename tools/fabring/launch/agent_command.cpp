// `fabring agent`: started by `fabring run` on each of its hosts; not for people, and not in the help.

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tools/fabring/command.hpp"
#include "tools/fabring/launch/agent.hpp"

namespace fabring::tools {

void add_agent(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("agent", "The part of `fabring run` on another host");
  command->group("");
  command->footer("`fabring run --hosts` starts it over ssh.\nExample: fabring run --hosts a:4,b:4 -- ./train");
  command->callback([&session] {
    if (::isatty(STDIN_FILENO) != 0) {
      session.exit_code =
          wrong_usage("agent", "this is started by `fabring run --hosts`, which talks to it; try `fabring run --help`");
      return;
    }
    session.exit_code = run_agent();
  });
}

}  // namespace fabring::tools
