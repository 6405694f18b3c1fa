#!/usr/bin/env python3
"""What is made of other endpoints answers every call of an endpoint: most calls have an answer that means "not possible", so that
one which is not passed on would be impossible behind it, without a word. Run: endpoints.py ROOT, or endpoints.py --self-test."""
import pathlib
import re
import sys
import tempfile

BASE = "transports/endpoint.hpp"
OF_SHARED_MEMORY = "of ranks that share memory, which no card of a rail joins"
OF_ONE_CARD = "asked of each card's endpoint when it is opened, before it is a part of this one"
# File -> the calls that it leaves to the base class, and why.
LEFT_OUT = {
    "transports/forwarding_endpoint.hpp": {},
    "transports/joint/joint_endpoint.cpp": {"link_facts": OF_ONE_CARD},
    "transports/rails/rails_endpoint.hpp": {
        "link_facts": OF_ONE_CARD,
        **dict.fromkeys(("post_readable_send", "write_ahead", "post_written", "post_cold_recv", "post_borrowing_recv", "give_back",
                         "takes_tickets", "post_ticket", "post_recv_or_ticket", "refuse", "hand_over", "take_over", "memory", "mapped_memory",
                         "fast_messages"), OF_SHARED_MEMORY),
    },
}
COMMENT = re.compile(r"//.*")
VIRTUAL = re.compile(r"\bvirtual\s+[^~;{(]*?\b(\w+)\s*\(")
OVERRIDE = re.compile(r"\b(\w+)\s*\([^()]*\)\s*(?:const\s*)?override\b")


def names(pattern, path):
    return set(pattern.findall(COMMENT.sub("", path.read_text())))


def faults(root, left_out):
    calls = names(VIRTUAL, root / BASE)
    if not calls:
        yield f"{BASE}: no virtual function is found any more"
    for file, left in left_out.items():
        overridden = names(OVERRIDE, root / file)
        for call in sorted(calls - overridden - left.keys()):
            yield f"{file}: does not override {call}() of {BASE}; tests/layering/endpoints.py lists what may be left out, and why"
        for call in sorted(left.keys() & overridden):
            yield f"{file}: overrides {call}(), which is listed as left out"
        for call in sorted(left.keys() - calls):
            yield f"{file}: {call}() is listed as left out, and {BASE} has no such call"


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "transports").mkdir()
        (root / BASE).write_text("""class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // virtual void no_call();
  virtual std::string address() const = 0;
  virtual Result<std::shared_ptr<const void>> admit(std::span<const Rank> peers,
                                                    std::span<const std::byte> memory) {
    return Status(peers, memory);
  }
  virtual bool passed_over(Rank peer) { return false; }
  virtual int left() const { return 1; }
};
""")
        (root / "part.hpp").write_text("""class Part final : public Endpoint {
  ~Part() override;
  std::string address() const override { return inner().address(); }
  Result<std::shared_ptr<const void>> admit(std::span<const Rank> peers,
                                            std::span<const std::byte> memory) override;
  // bool passed_over(Rank peer) override;
};
""")
        for left, wanted in (({"left"}, ["does not override passed_over()"]),
                             ({"left", "passed_over"}, []),
                             ({"left", "passed_over", "address"}, ["overrides address()"]),
                             ({"left", "passed_over", "gone"}, ["gone() is listed"])):
            found = list(faults(root, {"part.hpp": dict.fromkeys(left, "because")}))
            if len(found) != len(wanted) or not all(word in fault for word, fault in zip(wanted, found)):
                sys.exit(f"{sorted(left)}: wanted {wanted}, found {found}")


if sys.argv[1] == "--self-test":
    self_test()
else:
    sys.exit("\n".join(faults(pathlib.Path(sys.argv[1]), LEFT_OUT)) or 0)
