// A library that has nothing to do with Poseidon.

extern "C" __attribute__((visibility("default"))) int stranger();

int stranger() { return 1; }
