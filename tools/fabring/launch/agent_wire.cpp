#include "tools/fabring/launch/agent_wire.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/wire.hpp"

namespace fabring::tools {
namespace {

constexpr std::string_view greeting_mark =
    "\x01"
    "fabring-agent ";
constexpr std::size_t most_text = 8 << 20;
constexpr std::size_t most_word = 1024;
constexpr std::uint32_t most_words = 1 << 20;

Status unreadable(const char* what) {
  return Status(ErrorCode::mismatch, fmt::format("a message about {} cannot be read", what));
}

}  // namespace

std::string encode_frame(std::uint8_t type, std::string_view payload) {
  return WireWriter().number(static_cast<std::uint32_t>(payload.size())).number(type).raw(payload).take();
}

std::optional<Frame> FrameReader::next() {
  constexpr std::size_t head = 5;
  const std::string_view bytes = std::string_view(bytes_).substr(taken_);
  if (broken_ || bytes.size() < head) return {};
  WireReader in(bytes);
  const auto length = in.number<std::uint32_t>();
  Frame frame;
  frame.type = in.number<std::uint8_t>();
  if (length > most_) {
    broken_ = true;
    return {};
  }
  if (bytes.size() < head + length) {
    bytes_.erase(0, taken_);
    taken_ = 0;
    return {};
  }
  frame.payload = in.raw(length);
  taken_ += head + length;
  if (taken_ == bytes_.size()) {
    bytes_.clear();
    taken_ = 0;
  }
  return frame;
}

std::string greeting_line(std::string_view version) { return fmt::format("{}{}\n", greeting_mark, version); }

std::optional<Greeting> find_greeting(std::string_view bytes) {
  const std::size_t mark = bytes.find(greeting_mark);
  if (mark == std::string_view::npos) return {};
  const std::size_t from = mark + greeting_mark.size(), end = bytes.find('\n', from);
  if (end == std::string_view::npos) return {};
  return Greeting{std::string(bytes.substr(from, end - from)), std::string(bytes.substr(0, mark)),
                  std::string(bytes.substr(end + 1))};
}

std::string AgentFacts::encode() const {
  return WireWriter()
      .text(host_name, most_word)
      .number(std::int32_t{free_port})
      .text(reached_at, most_word)
      .text(reached_from, most_word)
      .take();
}

Result<AgentFacts> AgentFacts::decode(std::string_view payload) {
  WireReader in(payload);
  AgentFacts facts;
  facts.host_name = in.text(most_word);
  facts.free_port = in.number<std::int32_t>();
  facts.reached_at = in.text(most_word);
  facts.reached_from = in.text(most_word);
  if (!in.complete() || facts.free_port < 1 || facts.free_port > 65535) return unreadable("the host");
  return facts;
}

std::string StartOrder::encode() const {
  WireWriter out;
  out.text(job_id, most_word).text(master_addr, most_word).text(directory, most_text);
  out.number(std::int32_t{world_size}).number(std::int32_t{first_rank}).number(std::int32_t{ranks});
  out.number(std::int32_t{master_port}).number(static_cast<std::uint8_t>(binding));
  out.number(static_cast<std::uint8_t>(input_follows)).text(secret, most_text);
  out.number(static_cast<std::int64_t>(silence.count()));
  out.number(static_cast<std::uint32_t>(command.size()));
  for (const std::string& word : command) out.text(word, most_text);
  out.number(static_cast<std::uint32_t>(environment.size()));
  for (const auto& [name, value] : environment) out.text(name, most_text).text(value, most_text);
  return out.take();
}

Result<StartOrder> StartOrder::decode(std::string_view payload) {
  WireReader in(payload);
  StartOrder order;
  order.job_id = in.text(most_word);
  order.master_addr = in.text(most_word);
  order.directory = in.text(most_text);
  order.world_size = in.number<std::int32_t>();
  order.first_rank = in.number<std::int32_t>();
  order.ranks = in.number<std::int32_t>();
  order.master_port = in.number<std::int32_t>();
  const auto binding = in.number<std::uint8_t>();
  order.binding = static_cast<Binding>(binding);
  order.input_follows = in.number<std::uint8_t>() != 0;
  order.secret = in.text(most_text);
  order.silence = std::chrono::milliseconds(in.number<std::int64_t>());
  const auto words = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; in.ok() && i < std::min(words, most_words); ++i)
    order.command.emplace_back(in.text(most_text));
  const auto pairs = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; in.ok() && i < std::min(pairs, most_words); ++i) {
    const std::string name(in.text(most_text));
    order.environment[name] = in.text(most_text);
  }
  const std::int64_t beyond = std::int64_t{order.first_rank} + order.ranks;
  const bool sane = order.ranks > 0 && order.first_rank >= 0 && beyond <= order.world_size &&
                    binding <= static_cast<std::uint8_t>(Binding::numa) && order.silence.count() > 0 &&
                    !order.command.empty();
  if (!in.complete() || !sane) return unreadable("the ranks to start");
  return order;
}

std::string encode_output(int rank, OutputStream stream, std::string_view bytes) {
  return WireWriter().number(std::int32_t{rank}).number(static_cast<std::uint8_t>(stream)).raw(bytes).take();
}

Result<RankOutput> decode_output(std::string_view payload) {
  constexpr std::size_t head = 5;
  WireReader in(payload);
  RankOutput output;
  output.rank = in.number<std::int32_t>();
  output.stream = static_cast<OutputStream>(in.number<std::uint8_t>());
  if (!in.ok() || (output.stream != OutputStream::out && output.stream != OutputStream::err))
    return unreadable("output");
  output.bytes = payload.substr(head);
  return output;
}

std::string encode_end(int rank, pid_t pid, const Ending& ending) {
  return WireWriter()
      .number(std::int32_t{rank})
      .number(std::int32_t{pid})
      .number(std::int32_t{ending.exit_status})
      .number(std::int32_t{ending.signal})
      .take();
}

Result<RankEnd> decode_end(std::string_view payload) {
  WireReader in(payload);
  RankEnd end;
  end.rank = in.number<std::int32_t>();
  end.pid = in.number<std::int32_t>();
  end.ending.exit_status = in.number<std::int32_t>();
  end.ending.signal = in.number<std::int32_t>();
  if (!in.complete() || end.ending.exit_status < 0 || end.ending.exit_status > 255 || end.ending.signal < 0 ||
      end.ending.signal > 64)
    return unreadable("the end of a rank");
  return end;
}

std::string encode_count(std::uint32_t number) { return WireWriter().number(number).take(); }

Result<std::uint32_t> decode_count(std::string_view payload) {
  WireReader in(payload);
  const auto number = in.number<std::uint32_t>();
  if (!in.complete()) return unreadable("a number");
  return number;
}

}  // namespace fabring::tools
