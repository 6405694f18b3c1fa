// A libfabric before all others: it has the functions, at a version that no Fabring was built with.

void fi_getinfo(void) {}
void fi_dupinfo(void) {}
void fi_freeinfo(void) {}
void fi_fabric(void) {}
void fi_strerror(void) {}
void fi_version(void) {}
