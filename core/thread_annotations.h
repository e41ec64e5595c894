#pragma once

/// Lock annotations for clang's -Wthread-safety; other compilers ignore them. Use them with Mutex
/// (core/mutex.h), because std::mutex has no annotations.
#if defined(__clang__)
#define POSEIDON_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define POSEIDON_THREAD_ATTRIBUTE(attribute)
#endif

/// For a member that is accessed only while `mutex` is held.
#define GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(guarded_by(mutex))
/// For a pointer to data that is accessed only while `mutex` is held.
#define PT_GUARDED_BY(mutex) POSEIDON_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
/// For a function whose caller must hold these mutexes.
#define REQUIRES(...) POSEIDON_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// For a function whose caller must not hold these mutexes.
#define EXCLUDES(...) POSEIDON_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
/// For a function that acquires or releases a mutex.
#define ACQUIRE(...) POSEIDON_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) POSEIDON_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// For a class that is a mutex, or that holds one during a scope.
#define CAPABILITY(name) POSEIDON_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY POSEIDON_THREAD_ATTRIBUTE(scoped_lockable)
