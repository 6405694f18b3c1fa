#!/usr/bin/env python3
"""Which tests did not run, of what ctest said, and may not be left out where a commit is checked. A host that can do what
they need (root, network namespaces, setpriv) fails for it; one that cannot says what was not tried there.
Run: skips.py CTEST_OUTPUT, or skips.py --self-test."""
import pathlib
import re
import shutil
import sys

# What a host, a kernel or a build need not have, and transports do not all do. Network namespaces, root and setpriv are
# not among them: hosts, cards, links and limits are tried by nothing else.
ALLOWED = {
    r"By/FarBlocks\..*": "no address space of several GiB",
    r"FileLimit\..*": "a hard limit on open files below what the test needs",
    r"\w+/Conformance\.(AForkedChildHidesNoEndFromAPeer|ARankOfAnotherJobIsRefusedAndDoesNoHarm|"
    r"SilentAndTalkingStrangersAreTurnedAwayAndCounted)/.*": "the transport has no listener, or notices no end, by itself",
    r"CudaQueue\..*|CudaShares\.kernels_.*": "no CUDA compiler, so no kernels",
    r"YieldCore\..*|DoctorCommand\.SeesRealLimitsAndARealBinding": "one processor",
    r"Net/StreamOverBothFamilies\..*/v6\b.*": "no IPv6",
    r"Net\.ConnectionsBeginWithTheCongestionControlThatIsAskedFor": "the kernel allows no second congestion control",
    r"Networks\.are_not_passed_over_because_of_a_congestion_control": "the kernel has every congestion control",
    r"SmallCalls\.that_find_what_they_wait_for_do_not_call_the_kernel": "seccomp is not permitted",
    r"process: a rank waits by the quota of its own control group": "no control group with a quota can be made",
    r"FabricSelection\.EfaWithoutADeviceIsAnErrorThatSaysSo": "an EFA device",
}
LIST = re.compile(r"^The following tests did not run:\n((?:[ \t]+.*\n?)+)", re.M)
TEST = re.compile(r"^\s+\d+ - (.+) \(([\w ]+)\)$", re.M)


def not_allowed(text):
    """The name and ctest's word for each."""
    found = [test for part in LIST.findall(text) for test in TEST.findall(part)]
    return [(name, how) for name, how in found if not any(re.fullmatch(pattern, name) for pattern in ALLOWED)]


def self_test():
    said = """99% tests passed, 0 tests failed out of 5

Label Time Summary:
unit    =   1.00 sec*proc (5 tests)

The following tests did not run:
\t727 - Inproc/Conformance.ARankOfAnotherJobIsRefusedAndDoesNoHarm/Plain  # GetParam() = Plain (Skipped)
\t  8 - Net/StreamOverBothFamilies.CarriesBytesAndReportsTheEnd/v6  # GetParam() = "::1" (Skipped)
\t  9 - Net/StreamOverBothFamilies.CarriesBytesAndReportsTheEnd/v4  # GetParam() = "127.0.0.1" (Skipped)
\t 10 - process: several hosts as network namespaces give right answers (Skipped)
\t3011 - Threads.DISABLED_something (Disabled)

Total Test time (real) =   0.02 sec
"""
    wanted = ["Net/StreamOverBothFamilies.CarriesBytesAndReportsTheEnd/v4  # GetParam() = \"127.0.0.1\"",
              "process: several hosts as network namespaces give right answers", "Threads.DISABLED_something"]
    found = [name for name, _ in not_allowed(said)]
    if found != wanted:
        sys.exit(f"wanted {wanted}, found {found}")
    if not_allowed(said.split("The following")[0]):
        sys.exit("found something where all have run")


def what_is_missing():
    """Of what tests of several hosts and of limits need, in words; empty: nothing."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "process"))
    import hosts
    try:
        hosts.check_possible()
    except hosts.NotPossible as missing:
        return str(missing)
    return "" if shutil.which("setpriv") else "needs setpriv (package util-linux)"


def main():
    found = not_allowed(pathlib.Path(sys.argv[1]).read_text(errors="replace"))
    missing = what_is_missing() if found else ""
    for name, how in found:
        print(f"{'was not tried here' if missing else 'did not run, but has to'}: {name} ({how})", file=sys.stderr)
    if missing:
        print(f"{missing}: let a machine that has it try {len(found)} test{'s'[:len(found) > 1]} too", file=sys.stderr)
        return 0
    if found:
        print(f"{len(found)} test{'s'[:len(found) > 1]} that a check of a commit cannot do without; `ctest -V -R NAME` says what they miss (root, "
              "setpriv and network namespaces, mostly), tools/test.sh dev does not insist on them", file=sys.stderr)
    return 1 if found else 0


if sys.argv[1] == "--self-test":
    self_test()
else:
    sys.exit(main())
