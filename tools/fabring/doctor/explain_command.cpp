// `fabring doctor explain`: a code, a message or a log, translated into causes and remedies.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/fabring/common_options.hpp"
#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/doctor/explanations.hpp"
#include "tools/fabring/doctor/report.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/time_limit.hpp"
#include "tools/fabring/wrapped_text.hpp"

namespace fabring::tools {
namespace {

struct ExplainOptions : CommonOptions {
  std::vector<std::string> words;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string listed(std::string_view head, std::string_view text) {
  std::string out;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += wrapped(fmt::format("{:<10}{}{}", i == 0 ? head : "", lines.size() > 1 ? "- " : "", lines[i]), 80,
                   lines.size() > 1 ? 12 : 10) +
           "\n";
  return out;
}

std::string entry_text(const Explanation& entry) {
  std::string out = listed("  means", entry.meaning) + listed("  causes", entry.causes) + listed("  do", entry.remedy);
  if (entry.victim) out += wrapped("          Usually a consequence: another rank failed first.", 80, 10) + "\n";
  return out;
}

nlohmann::ordered_json entry_json(const Explanation& entry) {
  return {{"source", entry.source},
          {"codes", entry.codes},
          {"meaning", entry.meaning},
          {"causes", lines_of(entry.causes)},
          {"remedies", lines_of(entry.remedy)},
          {"consequence", entry.victim}};
}

struct Answer {
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool known = false;
};

Answer about_code(const std::string& word) {
  Answer answer;
  auto found = explain_code(word);
  if (found.empty()) found = explain_errno(word);
  if (found.empty()) found = explain_text(word);
  for (const Explanation* entry : found) {
    answer.text += wrapped(fmt::format("{} ({})", word, entry->source), 80, 2) + "\n" + entry_text(*entry) + "\n";
    answer.json.push_back(entry_json(*entry));
  }
  const std::string number = errno_text(word);
  const bool is_number = word.find_first_not_of("-0123456789") == std::string::npos;
  if (!number.empty() && (found.empty() || is_number)) {
    answer.text += number + "\n";
    if (found.empty()) answer.json.push_back(entry_json({"system", word, "", number, "", ""}));
  }
  answer.known = !answer.text.empty();
  return answer;
}

Answer about_log(std::istream& log, const std::string& name) {
  Answer answer;
  const auto hits = explain_log(log);
  answer.known = !hits.empty();
  if (log.bad())
    warn("doctor explain", name + ": reading it failed before its end; what stands behind is not explained");
  for (const LogHit& hit : hits) {
    answer.text +=
        wrapped(fmt::format("{}:{}{} ({})", name, hit.line,
                            hit.times > 1 ? fmt::format(", {} lines like it", hit.times) : "", hit.explanation->source),
                80, 2) +
        "\n" + wrapped("  > " + hit.text, 80, 4) + "\n" + entry_text(*hit.explanation) + "\n";
    auto one = entry_json(*hit.explanation);
    one["line"] = hit.line;
    one["times"] = hit.times;
    one["text"] = hit.text;
    answer.json.push_back(std::move(one));
  }
  return answer;
}

bool is_file(const std::string& word) {
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

/// Each word by itself, where every one is a code or a log; else they are one message.
std::vector<std::string> asked_about(const ExplainOptions& options) {
  std::vector<std::string> asked;
  std::string message;
  for (const std::string& word : options.words) {  // name_the_part_of_doctor() may have put a blank before it
    asked.push_back(word.substr(std::min(word.find_first_not_of(' '), word.size())));
    message += (message.empty() ? "" : " ") + asked.back();
  }
  const auto stands_alone = [](const std::string& word) {
    return is_file(word) || !explain_code(word).empty() || !errno_text(word).empty();
  };
  if (!std::ranges::all_of(asked, stands_alone)) asked = {message};
  return asked;
}

/// What `what` is: a log, stdin, a code or a message. Errors: what is not known, or cannot be read.
Result<Answer> answer_to(const std::string& what) {
  std::error_code error;
  const bool is_log = what == "-" || std::filesystem::exists(what, error);
  const auto unknown = [](std::string why) { return Status(ErrorCode::unavailable, std::move(why)); };
  Answer answer;
  if (what == "-") {
    std::ios::sync_with_stdio(false);  // else it comes byte by byte
    answer = about_log(std::cin, "stdin");
  } else if (is_log) {
    std::ifstream log(what, std::ios::binary);
    if (!log || std::filesystem::is_directory(what, error)) return unknown(what + " cannot be read as a log");
    answer = about_log(log, what);
  } else {
    answer = about_code(what);
  }
  if (answer.known) return answer;
  return unknown(
      is_log ? fmt::format("{}: no line of it is known to doctor", what == "-" ? "stdin" : what)
             : fmt::format("'{}' is no file, and no code or message that is known here{}", what, nearest_code(what)));
}

int run(const ExplainOptions& options) {
  if (options.words.empty())
    return wrong_usage(
        "doctor explain",
        "explain what? A code (4126, peer_lost), a message, or a log file; - is stdin\nTry `fabring doctor "
        "explain --help`.");
  Output out;
  Status status = out.open(options.output);
  if (!status.ok()) return could_not_run("doctor explain", status);
  Answer answer;
  Status unknown;
  for (const std::string& what : asked_about(options)) {
    const auto one = answer_to(what);
    if (!one) {
      complain("doctor explain", one.error().message());
      unknown = one.error();
      continue;
    }
    answer.known = true;
    answer.text += one->text;
    answer.json.insert(answer.json.end(), one->json.begin(), one->json.end());
  }
  if (!answer.known) return exit_could_not_run;
  out.write(options.json ? answer.json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                         : answer.text);
  status = out.finish();
  if (!status.ok()) return could_not_run("doctor explain", status);
  return unknown.ok() ? exit_fine : exit_could_not_run;
}

}  // namespace

void add_doctor_explain(CLI::App& doctor, Session& session) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = doctor.add_subcommand("explain", "An error code, a message or a log, in causes and remedies");
  command
      ->add_option(
          "what", options->words,
          "A code (4126, FI_ENODATA, peer_lost, ncclRemoteError) or several, a message, or log files; - is stdin")
      ->type_name("CODE|LOGFILE");
  add_common_options(*command, *options,
                     {.json = "As a JSON array", .explain = "Causes and remedies, which are printed without it too"});
  command->footer(
      "Exit code 3: nothing is known about it, or about one of them.\nExample: fabring doctor explain 4126");
  command->callback([options, &session] {
    session.exit_code = run_within(options->timeout_s, "doctor explain", [&] { return run(*options); });
  });
}

}  // namespace fabring::tools
