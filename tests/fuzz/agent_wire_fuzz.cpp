// What `fabring run` and its agents say to each other over a login shell. The first byte says which; 'f' and 'g' are
// streams.

#include "tools/fabring/launch/agent_wire.hpp"

#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::agent_wire {
namespace {

template <class T>
bool typed(const Result<T>& read) {
  require(read || read.error().code() == ErrorCode::mismatch, "what is refused is a mismatch");
  return static_cast<bool>(read);
}

void run_frames(std::string_view bytes) {
  constexpr std::size_t most = 300;
  std::string whole, in_parts;
  const auto read = [](tools::FrameReader& reader, std::string& into) {
    while (const auto frame = reader.next()) {
      require(frame->payload.size() <= most, "no frame is longer than allowed");
      into += tools::encode_frame(frame->type, frame->payload);
    }
  };
  tools::FrameReader at_once(most), by_bytes(most);
  at_once.add(bytes);
  read(at_once, whole);
  for (const char byte : bytes) {
    by_bytes.add({&byte, 1});
    read(by_bytes, in_parts);
  }
  require(whole == in_parts && at_once.broken() == by_bytes.broken(), "where a read ends does not matter");
  require(bytes.starts_with(whole), "frames are what came");
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  switch (input[0]) {
    case 'f':
      return run_frames(bytes);
    case 'g':
      if (const auto greeting = tools::find_greeting(bytes))
        require(greeting->before + tools::greeting_line(greeting->version) + greeting->after == bytes,
                "a greeting is cut out of what came");
      return;
    case 'h':
      if (typed(tools::AgentFacts::decode(bytes))) settled_value<tools::AgentFacts>(bytes, tools::AgentFacts::decode);
      return;
    case 's':
      if (const auto order = tools::StartOrder::decode(bytes); typed(order)) {
        require(order->ranks > 0 && order->first_rank >= 0 && order->first_rank <= order->world_size - order->ranks,
                "the ranks to start are of the world");
        settled_value<tools::StartOrder>(bytes, tools::StartOrder::decode);
      }
      return;
    case 'o':
      if (const auto output = tools::decode_output(bytes); typed(output))
        require(tools::encode_output(output->rank, output->stream, output->bytes) == bytes, "output stays what it is");
      return;
    case 'e':
      if (const auto end = tools::decode_end(bytes); typed(end))
        require(tools::encode_end(end->rank, end->pid, end->ending) == bytes, "so does an end");
      return;
    case 'c':
      if (const auto count = tools::decode_count(bytes); typed(count))
        require(tools::encode_count(*count) == bytes, "and a number");
      return;
    default:
      return;
  }
}

Seeds seeds() {
  tools::StartOrder order;
  order.job_id = "job";
  order.master_addr = "10.0.0.1";
  order.directory = "/home/user";
  order.world_size = 8;
  order.first_rank = 4;
  order.ranks = 4;
  order.master_port = 41234;
  order.command = {"./app", "--fast"};
  order.environment = {{"FABRING_LOG", "info"}, {"PATH", "/bin"}};
  order.silence = std::chrono::seconds(30);
  const tools::AgentFacts facts{"host-a", 41234, "10.0.0.2", "10.0.0.1"};
  return {'f' + tools::encode_frame(tools::FromAgent::beat, "") + tools::encode_frame(tools::FromAgent::output, "text"),
          'f' + tools::encode_frame(tools::ToAgent::signal, std::string(301, 'x')),
          "gLast login: today\n" + tools::greeting_line("0.1.0") + "more",
          'h' + facts.encode(),
          's' + order.encode(),
          'o' + tools::encode_output(2, tools::OutputStream::err, "what a rank writes"),
          'e' + tools::encode_end(1, 4711, {}),
          'c' + tools::encode_count(9)};
}

}  // namespace fabring::fuzz::agent_wire
