#pragma once

namespace poseidon::apps {

/// Starts the program once more, with the same arguments and open files, so that threads of an
/// OpenMP team which wait for each other spin for some microseconds and then sleep. The OpenMP
/// library reads that from the environment when it is loaded, before main. By its default a thread
/// spins for milliseconds: on a machine that has other work it keeps the core which the thread that
/// it waits for could use. Returns where the environment says already how to wait, or where the
/// program cannot be started again; to be called before anything else.
void wait_without_spinning(char** arguments);

}  // namespace poseidon::apps
