// What tests/support/lsan.supp says, for programs that are run without LSAN_OPTIONS.

#if defined(__SANITIZE_ADDRESS__)
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() { return "leak:fi_dupinfo\nleak:libfabric.so\n"; }
#endif
