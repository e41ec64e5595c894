// Another library that is not Poseidon's.

extern "C" __attribute__((visibility("default"))) int other_stranger();

int other_stranger() { return 2; }
