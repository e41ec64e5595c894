// A library that is not Poseidon's.

extern "C" __attribute__((visibility("default"))) int stranger();

int stranger() { return 1; }
