#pragma once
// The messages of the rendezvous between a rank and rank 0, after the handshake. All bounded; decoders accept exactly
// what the encoders write. Versioned by the handshake's wire version.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring::meeting {

inline constexpr std::size_t most_key_bytes = 128;
inline constexpr std::size_t most_value_bytes = 1024;
inline constexpr std::size_t most_text_bytes = 2048;
inline constexpr std::size_t most_payload_bytes = 4096;
inline constexpr std::size_t most_master_addresses = 4;

enum class Message : std::uint8_t {
  join = 1,       ///< rank -> 0: here I am (Join)
  welcome,        ///< 0 -> rank: all are here (Welcome)
  waiting,        ///< 0 -> rank: a note on who is missing (text)
  failed,         ///< 0 -> rank: the end of the rendezvous for all (Status)
  put,            ///< rank -> 0 (Pair)
  get,            ///< rank -> 0 (key)
  value,          ///< 0 -> rank (Pair)
  done,           ///< rank -> 0: I need nothing more
  give_up,        ///< rank -> 0: I leave before the others came, or my start has failed (Status)
  taken_in,       ///< 0 -> rank: you are one of those who meet
  are_you_there,  ///< 0 -> rank: another process came in your name; no payload
  here,           ///< rank -> 0: the answer; no payload
};
inline std::uint8_t type_of(Message message) { return static_cast<std::uint8_t>(message); }

struct Join {
  std::string fingerprint;
  std::string host;
  std::uint32_t pid = 0;
  /// Of the master's name, as this rank resolves it: those to which it has a route, most_master_addresses at most. None
  /// of this host alone.
  std::vector<std::string> master_addresses = {};
};
/// What a rank puts into a store instead of a Join.
struct StoreJoin {
  Join self;
  std::string beacon;  ///< name of its HostBeacon; empty: it has none
};
struct Welcome {
  std::uint64_t job_nonce = 0;
  bool all_on_this_host = false;
  /// For the ranks beside rank 0, if some are elsewhere: where those reach this host. They may have come over loopback.
  std::string own_address;
  /// For the ranks of other hosts: the address of rank 0 towards which all of them go. Empty: each by its own way.
  std::string master = {};
};
struct Pair {
  std::string key;
  std::string value;
};
/// What rank 0 puts into a store instead of a Welcome.
struct StoreMeeting {
  std::uint64_t job_nonce = 0;
  bool all_on_this_host = false;
  std::string master;  ///< a numeric address of rank 0
};

std::string encode(const Join& join);
std::string encode(const StoreJoin& join);
std::string encode(const Welcome& welcome);
std::string encode(const Pair& pair);
std::string encode(const Status& status);
std::string encode_text(std::string_view text);
std::string encode(const StoreMeeting& meeting);
/// The same place in the store, where the meeting did not take place.
std::string encode_failed_meeting(const Status& why);

std::optional<Join> decode_join(std::string_view payload);
std::optional<StoreJoin> decode_store_join(std::string_view value);
std::optional<Welcome> decode_welcome(std::string_view payload);
std::optional<Pair> decode_pair(std::string_view payload);
std::optional<Status> decode_status(std::string_view payload);
std::optional<std::string> decode_text(std::string_view payload);
/// Errors: why it did not take place, as rank 0 says; mismatch if the store has something else.
Result<StoreMeeting> decode_store_meeting(std::string_view value);
/// Is it rank 0's word that it did not take place?
bool is_failed_meeting(std::string_view value);

/// What others are told of a rank that went without a word why.
Status failed_start();

/// The context of an error that is about one rank.
ErrorContext about(Rank rank, std::string host = {});

/// The context of what others are told where a rank gives up: whom it blames, else itself.
ErrorContext blamed(const Status& why, Rank self, std::string host = {});

/// A text from the wire as it may be shown: control characters become '?'.
std::string printable(std::string_view text);

}  // namespace fabring::meeting
