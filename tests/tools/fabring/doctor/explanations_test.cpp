#include "tools/fabring/doctor/explanations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <streambuf>

#include "fabring/status.hpp"
#include "tools/fabring/launch/output_lines.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Explanations, EveryErrorCodeOfOursIsThere) {
  for (int code = 1; code <= static_cast<int>(last_error_code); ++code)
    EXPECT_THAT(explain_code(fabring::name(static_cast<ErrorCode>(code))), SizeIs(1)) << code;
}

TEST(Explanations, EveryEntryHasMeaningCausesAndRemedy) {
  for (const Explanation& entry : explanations()) {
    EXPECT_FALSE(entry.meaning.empty() || entry.causes.empty() || entry.remedy.empty()) << entry.codes << entry.phrases;
    EXPECT_FALSE(entry.codes.empty() && entry.phrases.empty()) << entry.meaning;
    for (const char letter : entry.phrases) EXPECT_FALSE(letter >= 'A' && letter <= 'Z') << entry.phrases;
  }
}

TEST(Explanations, WhatAnEfaDeviceRefusesOfThisRankIsThere) {
  for (const char* number : {"1", "2", "3", "4", "5", "6"}) {
    const auto found = explain_code(number);
    EXPECT_TRUE(std::ranges::any_of(found, [](const Explanation* entry) { return entry->source == "EFA"; })) << number;
  }
}

TEST(Explanations, TheMissingRuleOfTheSecurityGroupIsNamed) {
  const auto by_code = explain_code("4126");
  ASSERT_THAT(by_code, SizeIs(1));
  EXPECT_THAT(std::string(by_code[0]->causes), HasSubstr("ITSELF"));
  EXPECT_THAT(std::string(by_code[0]->remedy), HasSubstr("All traffic"));
}

struct Line {
  const char* text;
  const char* meaning;
};

TEST(Explanations, LinesOfLogsAreRecognised) {
  const Line lines[] = {
      {"cq error 103: prov_errno: 4126 Unresponsive receiver (reachable by EFA device but handshake failed)",
       "handshake"},
      {"RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "system call"},
      {"ncclRemoteError: A call failed possibly due to a network error: remote process exited or there was a network "
       "error",
       "Another rank died"},
      {"node1:77:99 [0] misc/socket.cc NCCL WARN Bootstrap : no socket interface found", "interface"},
      {"[E ProcessGroupNCCL.cpp] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE)",
       "timeout"},
      {"RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/...]", "all pairs"},
      {"peer_lost: allreduce #17 on 'world' (67108864 bytes): rank 2 (host vm, pid 26659) died", "died, left"},
      {"The server socket has failed to listen on any local network address. port: 29500, useIpv6: 0, code: -98, name: "
       "EADDRINUSE",
       "port is taken"},
      {"RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error.", "data loader"},
      {"Out of memory: Killed process 4242 (python)", "killed"},
      {"Failure to post internal receive buffers", "own buffers"},
      {"NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus", "GPU reported"},
      {"OSError: [Errno 24] Too many open files", "open files"},
      {"fabring run: rank 0 (pid 1) exited with status 137", "was killed"},
      {"command terminated with exit code 137", "was killed"},
      {"  exitcode  : -9 (pid: 4242)", "was killed"},
      {"srun: error: n1: task 3: Killed", "was killed"},
      {"Segmentation fault (core dumped)", "has no memory"},
      {"mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 11 (Segmentation fault).",
       "has no memory"},
      {"  exitcode  : -11 (pid: 4242)", "has no memory"},
      {"srun: error: n1: task 0: Aborted (core dumped)", "ended itself"},
      {"srun: error: n1: task 0: Terminated", "told to end"},
      {"./app: error while loading shared libraries: libfabric.so.1: cannot open shared object file", "loader"},
      {"fi_getinfo: -61 (No data available)", "No provider"},
      {"peer_lost: allreduce #1 on 'world': no connection to rank 1: 10.0.0.2:4711: no answer for 30.0 s "
       "(FABRING_SILENCE_TIMEOUT): a firewall, a cable, or cards that do not reach each other",
       "lost on the way"},
      {"still waiting: no data connection yet: last error: cannot connect to 10.0.0.2:4711: no answer for 20000 ms",
       "lost on the way"},
      {"peer_lost: card eth1 of host a to card eth1 of rank 1 on host b: nothing came through for 30.0 s, while other "
       "cards of the two hosts reach each other: look at this card, or leave it out with FABRING_INTERFACE=^eth1",
       "lost on the way"},
      {"invalid_argument: no rank: nothing in the environment says which rank this process is; start it with ...",
       "by no launcher"},
      {"invalid_argument: no rank: PET_* are torchrun's arguments (PET_NNODES is set): start the program with torchrun",
       "by no launcher"},
      {"invalid_argument: no rank: RANK=0 is set but WORLD_SIZE is not; start it with ...", "by no launcher"},
      {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms "
       "for "
       "recv operation to complete",
       "Gloo waited for a message"},
      {"The client socket has failed to connect to any network address of (node0, 29500).", "store of rank 0"},
      {"torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
       "failed. "
       "See inner exception for details.",
       "--rdzv-endpoint"},
      {"torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "Fewer hosts"},
      {"Timed out initializing process group in store based barrier on rank 0, for key: store_based_barrier_key:1 "
       "(world_size=4, num_workers_joined=3, timeout=0:30:00 error=x)",
       "did not make this process group"},
      {"RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
       "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE)",
       "different collectives"},
      {"RuntimeError: Socket Timeout", "store did not answer"},
      {"RuntimeError: CUDA error: out of memory", "memory is full"},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "memory is full"},
      {"invalid_argument: FABRING_TRANPORT is set in the environment but is not a setting of Fabring", "none"},
      {"ImportError: fabring.torch was built for torch 2.11.0, but this is torch 2.13.0", "changed after"},
      {"ModuleNotFoundError: No module named 'fabring.torch'", "without its PyTorch backend"},
      {"ModuleNotFoundError: fabring was installed without its PyTorch backend: it was built where there was no torch",
       "without its PyTorch backend"},
      {"horovod.common.exceptions.HorovodInternalError: peer_lost: allreduce #2", "operation failed"},
      {"./app: error while loading shared libraries: libhwloc.so.15: cannot open shared object file: No such file",
       "needs at run time"},
      {"./app: error while loading shared libraries: libfabring.so.0.1: cannot open shared object file", "loader"},
  };
  for (const Line& line : lines) {
    const auto found = explain_text(line.text);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Explanation* entry) {
      return entry->meaning.find(line.meaning) != std::string_view::npos;
    })) << line.text;
  }
  EXPECT_THAT(explain_text("epoch 3 loss 0.412 4126 samples"), IsEmpty());
  EXPECT_THAT(explain_text(""), IsEmpty());
}

TEST(Explanations, KnowWhatFabringItselfPrintsAndRaises) {
  const std::pair<const char*, const char*> lines[] = {
      {"fabring.errors.PeerLostError: allreduce #1 on 'world': rank 1 (host a, pid 7) has left the job", "peer_lost"},
      {"[0] rank 1 (host a, pid 7) died: its control connection closed without a goodbye", "peer_lost"},
      {"fabring r0 warning: rank 1 (host a) has been silent for 4 s", "peer_lost"},
      {"fabring run: rank 1 (pid 7) was killed by signal 9 (Killed)", "peer_lost"},
      {"fabring.errors.MismatchError: operation #1 on communicator 'world' differs between ranks", "mismatch"},
      {"fabring.errors.TimeoutError: allreduce #3 on 'world'", "timeout"},
      {"fabring r0 warning: barrier #1 on 'world' has waited 10 s for rank 1 (host a)", "timeout"},
      {"fabring.errors.OutOfMemoryError: scratch", "out_of_memory"},
      {"internal: a step of the plan completed twice", "internal"},
  };
  for (const auto& [line, code] : lines) {
    const auto found = explain_text(line);
    ASSERT_THAT(found, SizeIs(1)) << line;
    EXPECT_EQ(found.front(), explain_code(code).front()) << line;
  }
  for (const char* raised : {"PeerLostError", "MismatchError", "TimeoutError", "DeviceError", "InternalError"})
    EXPECT_THAT(explain_code(raised), SizeIs(1)) << raised;
}

TEST(Explanations, KnowTheFindingsOfDoctor) {
  for (const char* id : {"net.mtu", "hang.silent", "hang.order", "bench.slow_link", "limits.memlock"})
    EXPECT_THAT(explain_code(id), SizeIs(1)) << id;
  for (const char* other : {"net.", "net", "net.example.com", "hang.3", "nothing.mtu"})
    EXPECT_THAT(explain_code(other), IsEmpty()) << other;
  EXPECT_THAT(nearest_code("hang"), testing::Not(HasSubstr("*")));
}

TEST(Explanations, WordsOfOthersThatLookLikeOurCodesAreNotOurs) {
  const auto watchdog = explain_text(
      "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=4, "
      "NumelOut=4, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.");
  ASSERT_THAT(watchdog, SizeIs(1));
  EXPECT_EQ(watchdog[0]->source, "PyTorch");
  for (const char* line :
       {"RuntimeError: size mismatch: got 3", "UNAVAILABLE: failed to connect to all addresses",
        "grpc: 14 UNAVAILABLE: socket closed", "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: ptxas exited with 1",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: shapes do not fit",
        "CUDA_ERROR_OUT_OF_MEMORY: none left", "http: request timeout: no answer",
        "fabring r0 info: rank 1 (host a) uses read-timeout: 30, http.timeout: 5 and idle_timeout: 9"})
    for (const Explanation* entry : explain_text(line)) EXPECT_NE(entry->source, "Fabring") << line;
}

TEST(Explanations, CodesOfOursAreKnownBehindWhatProgramsPutBeforeThem) {
  for (const char* line :
       {"timeout: allreduce #3 on 'world': rank 2 (host b, pid 7) has not called it", "[3] timeout: allreduce #3",
        "[rank3]: fabring: timeout: allreduce #3", "fabring perf: timeout: not all ranks came",
        "fabring-train: timeout: not all ranks came", "  Error: timeout: not all ranks came",
        "torch.distributed.DistBackendError: fabring: timeout: allreduce #3",
        "12:01:07 step 17 failed: timeout: allreduce #3 on 'world'",
        "2026-11-27 12:01:07,123 timeout: not all ranks came", "2026/11/27 12:01:07 [3] timeout: not all ranks came",
        "trainer-0  | timeout: allreduce #3 on 'world'", R"({"log":"timeout: allreduce #3 on 'world': rank 2"})",
        R"(level=error msg="timeout: allreduce #3 on 'world': rank 2 has not called it")",
        "ERROR:root:timeout: allreduce #3 on 'world'", "(timeout: allreduce #3 on 'world')"}) {
    // As the launcher passes them on, and as they then stand in the log of a container.
    for (const bool tag : {false, true})
      for (const bool timestamp : {false, true})
        for (const char* collector : {"", "2026-11-27T12:01:07.123456789Z ", "2026-11-27T12:01:07+02:00 "}) {
          const std::string text = collector + OutputLines(3, {tag, timestamp}).take(std::string(line) + "\n");
          const auto found = explain_text(text);
          ASSERT_THAT(found, SizeIs(1)) << text;
          EXPECT_EQ(found.front(), explain_code("timeout").front()) << text;
        }
  }
  EXPECT_THAT(explain_text("12:01:07 2 timeout: none"), IsEmpty());
}

TEST(Explanations, CausesComeBeforeConsequences) {
  std::istringstream log(
      "start\nrank 3: Connection reset by peer\nrank 4: Connection reset by peer\nrank 5: Too many open files\n");
  const auto hits = explain_log(log);
  ASSERT_THAT(hits, SizeIs(2));
  EXPECT_EQ(hits[0].explanation->codes, "EMFILE");
  EXPECT_EQ(hits[0].line, 4u);
  EXPECT_EQ(hits[1].times, 2u);
  EXPECT_EQ(hits[1].line, 2u);
}

// Lines of 10,000 bytes without a meaning, and a failure at the end, after which reading may fail.
class LongLog : public std::streambuf {
 public:
  explicit LongLog(int lines, bool breaks = false) : lines_(lines), breaks_(breaks) {}

 protected:
  int_type underflow() override {
    if (given_ > lines_ && breaks_) throw std::runtime_error("the disk is gone");
    if (given_ > lines_) return traits_type::eof();
    text_ = given_++ < lines_ ? std::string(9999, '\xff') + "\n" : "bus error\n";
    setg(text_.data(), text_.data(), text_.data() + text_.size());
    return traits_type::to_int_type(text_.front());
  }

 private:
  std::string text_;
  int lines_, given_ = 0;
  bool breaks_;
};

TEST(Explanations, ALogOfBytesIsReadToItsEnd) {
  std::string bytes(200'000, '\xff');
  bytes += "\n\x1b[31mbus error\x1b[0m";
  std::istringstream log(bytes);
  const auto hits = explain_log(log);
  ASSERT_THAT(hits, SizeIs(1));
  EXPECT_EQ(hits[0].text.find('\x1b'), std::string::npos);
  EXPECT_EQ(hits[0].line, 2u);
  LongLog endless(27'000);  // more than 256 MiB
  std::istream reader(&endless);
  const auto last = explain_log(reader);
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].line, 27'001u);
  EXPECT_FALSE(reader.bad());
}

TEST(Explanations, AFailureBehindAProgressBarIsSeen) {
  std::string bar;
  for (int step = 0; step < 10'000; ++step) bar += "step " + std::to_string(step) + " of 10000\r";
  std::istringstream log("begin\n" + bar + "bus error\r\nend\n");
  const auto hits = explain_log(log);
  ASSERT_THAT(hits, SizeIs(1));
  EXPECT_EQ(hits[0].line, 2u);
  EXPECT_EQ(hits[0].text, "bus error");
}

TEST(Explanations, ALogThatCannotBeReadToItsEndSaysSo) {
  LongLog broken(3, true);
  std::istream reader(&broken);
  EXPECT_THAT(explain_log(reader), SizeIs(1)) << "what was read counts";
  EXPECT_TRUE(reader.bad());
}

TEST(Explanations, NumbersOfTheSystemAreNamed) {
  EXPECT_EQ(errno_text("111"), "errno 111, ECONNREFUSED: Connection refused");
  EXPECT_EQ(errno_text("-113"), "errno 113, EHOSTUNREACH: No route to host");
  EXPECT_EQ(errno_text("FI_EAGAIN"), "errno 11, EAGAIN: Resource temporarily unavailable");
  for (const char* none : {"", "4126", "-", "hello", "99999999999999999999"}) EXPECT_EQ(errno_text(none), "") << none;
  EXPECT_THAT(nearest_code("peer_lots"), HasSubstr("peer_lost"));
}

TEST(Explanations, NumbersOfTheSystemFindTheEntryOfTheirName) {
  const auto files = explain_code("EMFILE");
  ASSERT_THAT(files, SizeIs(1));
  for (const char* code : {"24", "-24", "FI_EMFILE"}) EXPECT_EQ(explain_errno(code), files) << code;
  EXPECT_EQ(explain_errno("99"), explain_code("EADDRNOTAVAIL"));
  for (const char* none : {"", "4126", "0", "-", "hello", "22"}) EXPECT_THAT(explain_errno(none), IsEmpty()) << none;
}

}  // namespace
}  // namespace fabring::tools
