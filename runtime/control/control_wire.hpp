#pragma once
// The messages of the control plane, after the handshake. Every one of them but answers and letters is flooded through
// the tree: passed on over all links but the one it came by, so each crosses each link once. All bounded; decoders
// accept exactly what the encoders write, and the receiver still checks that the origin lies behind the link it came
// by.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/control/control_plane.hpp"

namespace fabring::control {

inline constexpr std::size_t most_blob_bytes = 64 * 1024;
inline constexpr std::size_t most_text_bytes = 2048;
inline constexpr std::size_t most_reason_bytes = 1024;
inline constexpr std::size_t most_activity_bytes = 120;
inline constexpr std::size_t most_state_bytes = 32 * 1024;
inline constexpr std::size_t most_letter_bytes = 48 * 1024;
inline constexpr std::size_t most_account_bytes = 32 * 1024;
inline constexpr std::size_t most_payload_bytes = most_blob_bytes + 64;

enum class Message : std::uint8_t {
  heartbeat = 1,  ///< no payload; not passed on
  entry,          ///< one rank's blob of an all-gather (Entry)
  failure,        ///< Failure
  activity,       ///< Note
  goodbye,        ///< Goodbye: this rank leaves
  gone,           ///< Note without text: this rank's connection has closed, nothing passes through it any more
  question,       ///< Question: what is every rank doing?
  answer,         ///< Answer; not flooded, it takes the one way to the rank that asked
  refusal,        ///< RefusedCall
  silence,        ///< Silence
  letter,         ///< Letter; not flooded, it takes the one way to its rank
  join,           ///< no payload; of a rank that has lost its parent, to the one that it asks to be that now
  welcome,        ///< no payload; the answer, if it is to be
  gone_before,  ///< Note without text, to who joins or is joined: gone already, for all that was known on the way here
  moved,        ///< Moved: a rank has another parent
};

struct Entry {
  std::uint32_t gather = 0;  ///< number of the all-gather, from 0
  Rank origin = -1;
  std::string blob;
};
struct Note {
  Rank origin = -1;
  std::string text;
};

struct Goodbye {
  Rank origin = -1;
  std::string account;  ///< ControlPlane::set_account
};

struct Letter {
  Rank from = -1, to = -1;
  std::string text;
};

/// A neighbour has not heard of a rank for so long; or, if that is 0, hears it again.
struct Silence {
  Rank observer = -1;
  Rank rank = -1;
  std::uint32_t ms = 0;
};

struct Moved {
  Rank rank = -1;
  Rank parent = -1;
};

struct Question {
  Rank asker = -1;
  std::uint32_t number = 0;
};
struct Answer {
  Question question;
  Rank origin = -1;
  std::string state;
};

std::string encode(const Entry& entry);
std::string encode(const Note& note);
std::string encode(const Failure& failure);
std::string encode(const RefusedCall& refusal);
std::string encode(const Goodbye& goodbye);
std::string encode(const Letter& letter);
std::string encode(const Silence& silence);
std::string encode(const Moved& moved);
std::string encode(const Question& question);
std::string encode(const Answer& answer);
std::optional<Goodbye> decode_goodbye(std::string_view payload);
std::optional<Letter> decode_letter(std::string_view payload);
std::optional<Silence> decode_silence(std::string_view payload);
std::optional<Moved> decode_moved(std::string_view payload);
std::optional<Question> decode_question(std::string_view payload);
std::optional<Answer> decode_answer(std::string_view payload);
std::optional<Entry> decode_entry(std::string_view payload);
std::optional<Note> decode_note(std::string_view payload);
std::optional<Failure> decode_failure(std::string_view payload, int world_size);
std::optional<RefusedCall> decode_refusal(std::string_view payload);

/// As it may be shown to people: control characters become '?', too long is cut.
std::string tidy(std::string_view text, std::size_t most);

}  // namespace fabring::control
